//! What stands in the algorithm's place of a layer: one for all requests, or one that is chosen.
//!
//! | for | use |
//! |---|---|
//! | the same numbers for everyone | the [algorithm](crate::algorithm) itself |
//! | free, paid and internal callers; a customer with numbers of their own | [`by_request`] |
//! | numbers that are replaced while the program runs | `Reloadable` (feature `reload`) |
//! | both | a `Reloadable` in the closure of [`by_request`] |
//!
//! # What is kept when a caller's numbers change
//!
//! A bucket belongs to a policy and a key, and a policy with a name *is* its name. So give all
//! plans of one limit the same name: then a caller whose plan changes keeps the bucket, and the
//! next request is judged by the new numbers. Without a name each plan's numbers are a policy of
//! their own, with buckets of their own.
//!
//! | algorithm | what was used counts on as |
//! |---|---|
//! | [`TokenBucket`], [`Gcra`], [`LeakyBucket`] | the units that were owed at the last charge, paid off at the new rate since then |
//! | [`FixedWindow`] | the units taken in the window, until one new period after its start |
//! | [`SlidingWindow`] | the units of the window in which the last charge was, and of the one before, by the new period |
//! | [`SlidingLog`], [`SlidingBuckets`] | every admission that still counted at the last charge, for as long as the new period says |
//! | [`MinInterval`] | the instant of the last admission |
//! | a tuple | each member as above |
//!
//! More may have been used than the new numbers allow: then nothing is admitted until enough of it
//! is over.
//!
//! # Plans in turn
//!
//! Callers with different numbers may use one bucket in turn. *In any span of a plan's period, that
//! plan admits no more than its bound, whatever the others did in between.* What the others admit
//! counts too, and fills a bucket to its brim at most. So whoever goes back to a plan finds what it
//! had counted:
//!
//! | algorithm | what is kept beside the plan of the last admission |
//! |---|---|
//! | a log, sub-counters | every entry that matters to one of the plans: as old as the longest span, and no more units than the largest quota |
//! | [`MinInterval`] | nothing: the last admission is all that matters |
//! | all others | the count of one other plan while that plan owes something, and until when the rest of them do: who comes back before begins as full as it may have been |
//!
//! A refused request changes nothing of it. The rule is held by
//! `tests/properties/tests/in_turn.rs`, the rows of the first table by `tests/plans.rs`. A state
//! may be forgotten once it is as good as fresh for every plan that was admitted; in memory it also
//! has to have been so for [as long](crate::algorithm::ConfigId::retention) as the slowest of its
//! policy matter.
//!
//! [`TokenBucket`]: crate::algorithm::TokenBucket
//! [`Gcra`]: crate::algorithm::Gcra
//! [`LeakyBucket`]: crate::algorithm::LeakyBucket
//! [`FixedWindow`]: crate::algorithm::FixedWindow
//! [`SlidingWindow`]: crate::algorithm::SlidingWindow
//! [`SlidingLog`]: crate::algorithm::SlidingLog
//! [`SlidingBuckets`]: crate::algorithm::SlidingBuckets
//! [`MinInterval`]: crate::algorithm::MinInterval

use std::ops::Deref;

use crate::limit::Limit;

mod by_request;
#[cfg(feature = "reload")]
mod reloadable;

pub use by_request::{ByRequest, Chosen, by_request};
#[cfg(feature = "reload")]
pub use reloadable::Reloadable;

/// What can stand in the algorithm's place: a limit, or what chooses one.
pub trait Choice {
    /// The limit that a request is held to.
    type Limit: Limit;
    /// What is kept of a choice while its request is on the way: nothing if there is only one.
    type Kept: Clone + Send + 'static;

    /// The limit that was chosen.
    fn kept<'a>(&'a self, kept: &'a Self::Kept) -> &'a Self::Limit;
}

/// Chooses the limit of each request, without a box or a lock.
///
/// An algorithm is its own choice for every request. Implement it for a table of plans that a
/// closure for [`by_request`] cannot say.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate-limiting algorithm for requests of type `{Req}`",
    label = "neither an algorithm nor a choice of one",
    note = "use one of `tollgate::algorithm` (`TokenBucket::new(Quota::per_second(20))`, say), a tuple of them, or implement `tollgate::algorithm::Algorithm`",
    note = "for numbers that depend on the request use `tollgate::choice::by_request(|request: &{Req}| ..)`"
)]
pub trait Choose<Req>: Choice {
    /// The choice, while the request is judged.
    type Chosen<'a>: Deref<Target = Self::Limit>
    where
        Self: 'a;

    /// Chooses for this request.
    fn choose<'a>(&'a self, request: &Req) -> Self::Chosen<'a>;

    /// What is kept of it while its request is on the way.
    fn keep(chosen: Self::Chosen<'_>) -> Self::Kept;
}

impl<L: Limit> Choice for L {
    type Limit = L;
    type Kept = ();

    #[inline(always)]
    fn kept<'a>(&'a self, (): &'a ()) -> &'a L {
        self
    }
}

impl<Req, L: Limit> Choose<Req> for L {
    type Chosen<'a> = &'a L;

    #[inline(always)]
    fn choose<'a>(&'a self, _request: &Req) -> &'a L {
        self
    }

    #[inline(always)]
    fn keep(_chosen: &L) {}
}
