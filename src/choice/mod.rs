//! Chooses the algorithm of each request: one for all, one by plan, or one that can be replaced.
//!
//! | for | use |
//! |---|---|
//! | the same numbers for everyone | the [algorithm](crate::algorithm) itself |
//! | free, paid and internal callers; a customer with numbers of their own | [`by_request`] |
//! | numbers that are replaced while the program runs | `Reloadable` (feature `reload`) |
//! | both | a `Reloadable` in the closure of [`by_request`], which returns a clone of its `in_force()` |
//! | several limits that are replaced | `Reloadable<(A, B)>`, not a tuple of them |
//!
//! # What is kept when a caller's numbers change
//!
//! Give all plans of one limit the same name: then a caller whose plan changes keeps the bucket,
//! and the next request is judged by the new numbers. So each plan admits no more than it would
//! alone, for any calls of the others in between, and nobody waits longer than the slowest of them
//! takes to recover. Without a name each plan's numbers are a policy of their own, with buckets of
//! their own.
//!
//! | algorithm | what is kept | begins anew under another |
//! |---|---|---|
//! | [`TokenBucket`], [`Gcra`], [`LeakyBucket`] | how long it needs to recover | tick, for numbers too large to be counted in microseconds; quota of 0 units or not |
//! | [`FixedWindow`], [`SlidingWindow`], [`SlidingLog`], [`SlidingBuckets`] | what it has counted | period, precision, or start of the windows |
//! | [`MinInterval`] | the instant from which on it is free | |
//! | [`InFlight`] | the places that are taken | |
//! | a tuple | each member as above | |
//!
//! A bucket keeps the *time* until it has recovered, and not the units: after 100 a day becomes 100
//! a second, one who has spent all waits the day out. [`reset`](crate::RateLimiter::reset) ends
//! that, by a limiter [of one plan](by_request). What was counted may be more than the new numbers
//! allow: then nothing is admitted until enough of it is over.
//!
//! One exception lets a plan admit more than alone. A debit, refund or settlement writes that time
//! in the parts of a unit of the plan that makes it, up to 2^53 of them. That is centuries for most
//! numbers, but may be less than a slow plan's time where units and period share few factors: of 30
//! days that are owed to 1 000 in 30 days, 10 are left after a plan of 10 007 a minute has debited
//! one.
//!
//! `tests/plans.rs` tests what begins anew, and `tests/properties/tests/in_turn.rs` the
//! bounds.
//!
//! [`TokenBucket`]: crate::algorithm::TokenBucket
//! [`Gcra`]: crate::algorithm::Gcra
//! [`LeakyBucket`]: crate::algorithm::LeakyBucket
//! [`FixedWindow`]: crate::algorithm::FixedWindow
//! [`SlidingWindow`]: crate::algorithm::SlidingWindow
//! [`SlidingLog`]: crate::algorithm::SlidingLog
//! [`SlidingBuckets`]: crate::algorithm::SlidingBuckets
//! [`MinInterval`]: crate::algorithm::MinInterval
//! [`InFlight`]: crate::algorithm::InFlight

mod by_request;
mod choose;
#[cfg(feature = "reload")]
mod reloadable;

pub use by_request::{ByRequest, by_request};
pub(crate) use choose::Choose;
#[cfg(feature = "reload")]
pub use reloadable::Reloadable;
