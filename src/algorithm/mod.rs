//! The algorithms: pure rules that say what is let through, and when.
//!
//! | for | use | most units in any span of one period P | memory per key |
//! |---|---|---|---|
//! | a steady rate with bursts (the usual choice) | [`TokenBucket`], [`Gcra`], [`LeakyBucket`] | burst + ⌊n(P−1)/P⌋ | 24 bytes |
//! | "n per day", as on a price list | [`FixedWindow`] | 2n; 2n − 1 from the first request | 16 bytes |
//! | n in *every* span, exactly | [`SlidingLog`] | n | 56 bytes for one, and 16 to 32 per further admission |
//! | n in *every* span, in bounded memory | [`SlidingBuckets::strict`] | n; units come back up to one sub-counter late | 56 bytes for one, and 16 to 32 per further sub-counter |
//! | the same, without that delay | [`SlidingBuckets`] | 2n at worst; n in P − precision | the same |
//! | evenly spread traffic, in little memory | [`SlidingWindow`] | n + ⌊n(P−2)/P⌋: 2n − 1, if the traffic is not evenly spread | 24 bytes |
//! | a smooth flow towards something slow | [`LeakyBucket::queue`] | n + c − 1, as released | 24 bytes |
//! | bursts, and callers who rather wait than be refused | [`TokenBucket::wait_at_most`] | max(burst, c) + n − 1, as released | 24 bytes |
//! | a pause after each request | [`MinInterval`] | ⌈P/d⌉ | 8 bytes |
//! | at most n requests at once | [`InFlight`] | n at any instant | 32 bytes |
//! | requests, whatever they cost | any of these but `InFlight`, [per request](TokenBucket::per_request) | as above, in requests | as above |
//! | a limit that is tried out, and refuses nobody | any of these but `InFlight`, [in shadow](TokenBucket::shadow) | none | as above |
//! | all of several at once | a tuple: `(TokenBucket, FixedWindow)` | the tightest | the sum |
//!
//! ![What each algorithm lets through of the same traffic][algorithms]
//!
//! (The sizes are those of the states, without the keys; `memory_per_key_is_what_the_table_says`
//! tests them.) n is the quota's units, c the largest cost, d the interval, in whole microseconds;
//! a span is half-open, (t − P, t], on the limiter's own never-decreasing clock. (With a period of
//! 1 µs both windows admit at most n, and without units or burst nothing is admitted.) The bounds
//! are reached, not only kept: `tests/properties` searches for the worst case. Everything is
//! counted in exact integers: no rate drifts, and an announced wait is exact.
//!
//! # A name, or numbers
//!
//! A bucket belongs to a policy and a key. A policy with a [name](TokenBucket::named) is identified
//! by it and by its *shape*: the algorithm, and of a window its period, its precision and when it
//! opens. It keeps its buckets when its numbers change; [`choice`](crate::choice) says what
//! they mean then. A policy without a name is identified by its algorithm and all its numbers.
//!
//! # When time steps back
//!
//! The time of a state never goes back: an earlier time than the state's own counts as the state's
//! own, so no time passes until the clock has caught up, and nothing more is admitted. The clock of
//! a store in memory never steps back, unless it is one of your own. That of Redis can, for good:
//! if it would take longer to catch up than the key was to live, the state's time goes on from
//! where it was. So a step back opens nothing, and locks nobody out for more than two recoveries, a
//! sixty-fourth of one and a second.
//!
//! # One of your own
//!
//! | to | implement |
//! |---|---|
//! | write a rule | [`Algorithm`] |
//! | let Redis run it | [`Scripted`]: the rule once more, in Lua |
//! | choose one for each request | nothing: [`by_request`](crate::choice::by_request) takes a closure |
//!
//! The example `custom_algorithm` is a whole one. Every algorithm is a [`KeyLimit`], as are a tuple
//! of them and one that is settled, and so a [`Limit`]: these are what stores and layers ask for.
//!
#![doc = include_str!("../docs/pictures/algorithms.md")]

use crate::clock::Timestamp;

mod additive;
mod admissions;
mod debt_bucket;
#[doc(hidden)]
pub mod described;
mod door;
mod fixed_window;
mod gcra;
mod in_flight;
mod leaky_bucket;
pub(crate) mod limit;
mod log;
mod min_interval;
mod overridden;
mod same_rule;
mod script;
pub(crate) mod setters;
mod settled;
mod sliding_buckets;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod tuple;
mod wait_at_most;

pub(crate) use crate::decision::{JudgedCost, LazyStatus};
pub use crate::decision::{Judgement, Status};
pub use crate::policy::{Policy, PolicyId};
#[doc(hidden)]
pub use additive::Additive;
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use in_flight::InFlight;
pub use leaky_bucket::{LeakyBucket, LeakyBucketQueue};
pub use limit::{Ending, KeyLimit, Limit};
pub use min_interval::MinInterval;
pub use overridden::Override;
pub(crate) use script::{Member, MemberReply, ScriptReply};
pub use script::{Script, Scripted};
pub use settled::Settled;
pub use sliding_buckets::SlidingBuckets;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;
pub use wait_at_most::WaitAtMost;

/// Calls the macro `$then` with all algorithms that a rule of a file can have, each as
/// `can Kind: its type`: its units can be held if it is `additive`, and not if it is `plain`.
#[doc(hidden)]
#[macro_export]
macro_rules! every_rule {
    ($then:ident) => {
        $then!(
            additive TokenBucket: $crate::algorithm::TokenBucket,
            plain WaitingTokenBucket: $crate::algorithm::WaitAtMost<$crate::algorithm::TokenBucket>,
            additive Gcra: $crate::algorithm::Gcra,
            plain WaitingGcra: $crate::algorithm::WaitAtMost<$crate::algorithm::Gcra>,
            additive LeakyBucket: $crate::algorithm::LeakyBucket,
            plain WaitingLeakyBucket: $crate::algorithm::WaitAtMost<$crate::algorithm::LeakyBucket>,
            plain LeakyBucketQueue: $crate::algorithm::LeakyBucketQueue,
            additive FixedWindow: $crate::algorithm::FixedWindow,
            additive SlidingLog: $crate::algorithm::SlidingLog,
            additive SlidingWindow: $crate::algorithm::SlidingWindow,
            additive SlidingBuckets: $crate::algorithm::SlidingBuckets,
            plain MinInterval: $crate::algorithm::MinInterval,
        );
    };
}

/// A rule that admits or refuses costs, as a pure step over the state of one bucket.
///
/// It reads no clock, takes no lock and does no I/O; a [store](crate::store) keeps one state per
/// *(policy, key)* and calls the methods of [`KeyLimit`], which calls these in this order, with
/// nothing in between: [`judge`](Self::judge), [`debit`](Self::debit) if admitted,
/// [`status`](Self::status). So a rule need not know whether its policy counts
/// [requests](Policy::per_request) or is in [shadow](Policy::shadow).
///
/// # Example: an allowance that never comes back
///
/// ```
/// use tollgate::algorithm::{Algorithm, Policy, Status};
/// use tollgate::{Quota, RateLimiter, Timestamp, store::LocalStore};
/// use std::time::Duration;
///
/// #[derive(Debug, Clone)]
/// struct Allowance(Policy);
///
/// impl Algorithm for Allowance {
///     type State = u64;
///
///     fn policy(&self) -> &Policy {
///         &self.0
///     }
///     fn fresh(&self, _at: Timestamp) -> u64 {
///         0
///     }
///     fn judge(&self, used: &u64, cost: u32, _now: Timestamp) -> bool {
///         used.saturating_add(cost.into()) <= self.0.limit()
///     }
///     fn debit(&self, used: &mut u64, units: u64, _now: Timestamp) {
///         *used = used.saturating_add(units);
///     }
///     fn refund(&self, used: &mut u64, cost: u32, _now: Timestamp) {
///         *used = used.saturating_sub(u64::from(cost));
///     }
///     fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool {
///         *used == 0
///     }
///     fn status(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
///         let (limit, left) = (self.0.limit(), self.0.limit().saturating_sub(*used));
///         Status::of(limit, left, u64::from(cost), admitted, |units| (units <= left).then_some(0))
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let trial = Allowance(Policy::new("allowance", &[3], Duration::from_secs(0)));
/// let limiter = RateLimiter::new(trial, LocalStore::new());
/// assert_eq!(limiter.check_cost("bob", 2).await?.remaining(), 1);
/// assert!(limiter.check_cost("bob", 2).await?.never_fits());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
///
/// # What an implementor must do
///
/// - Count an earlier time than that of the state as the state's own.
/// - Write what a state depends on into the algorithm's name, if numbers of one name cannot share
///   it: see [`Policy::new`].
/// - Admit monotonically: a cost that would be admitted now would be admitted later too, if nothing
///   else is charged.
/// - Change the state only in the methods that take `&mut Self::State`.
/// - Never wrap or panic, for any cost and any time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate-limiting algorithm",
    label = "not an algorithm",
    note = "use one of `tollgate::algorithm`, such as `TokenBucket::new(Quota::per_second(20))`, a tuple of them, or implement `tollgate::algorithm::Algorithm`",
    note = "to limit by each of several keys, write as many of both: `EachOf((.., ..))` in the algorithm's place and `EachOf((.., ..))` in the key's"
)]
pub trait Algorithm: Clone + Send + Sync + 'static {
    /// What is kept for each key.
    type State: Clone + Send + Sync + 'static;

    /// The policy whose buckets these are.
    fn policy(&self) -> &Policy;

    /// The state of a key that was never charged, as if last seen at `at`.
    fn fresh(&self, at: Timestamp) -> Self::State;

    /// Whether the cost is admitted. A cost of 0 always is.
    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool;

    /// Charges units, at least one, whether they fit or not: an admitted cost, a penalty, or a bill
    /// that comes later. What does not fit is owed, so that the next requests wait for it.
    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp);

    /// Gives units back: of more than it still counts, all.
    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp);

    /// Whether the state says no more than a fresh one, so that it may be forgotten.
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool;

    /// The status of the bucket after the decision about this cost; if it was admitted, after its
    /// charge. A cost that would be admitted but is not charged is passed as 0.
    fn status(&self, state: &Self::State, cost: u32, admitted: bool, now: Timestamp) -> Status;

    /// The first state of a key that leaves `shared`, the bucket that new keys share while a store
    /// is full. The key may have been charged there, so it owes what `shared` owes.
    ///
    /// By default a copy. Override it where a state can be large, as a log is, to return a small
    /// state that is at least as strict as `shared`, and admits now what `shared` admits now.
    fn inherit(&self, shared: &Self::State, _now: Timestamp) -> Self::State {
        shared.clone()
    }

    /// The same as [`status`](Self::status), in fewer steps where nobody asks for all of it.
    #[doc(hidden)]
    fn lazy_status(&self, state: &Self::State, cost: JudgedCost, now: Timestamp) -> LazyStatus {
        let (cost, admitted) = cost;
        LazyStatus::Known(self.status(state, cost, admitted, now))
    }

    /// A whole decision, as a store makes it: judges, charges if admitted, and tells the status.
    // Inlined always: a check of a fixed window takes 0.73 of governor's time so, and 0.84
    // otherwise (bench `decision`).
    #[doc(hidden)]
    #[inline(always)]
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let admitted = self.judge(state, cost, now);
        if admitted && cost > 0 {
            self.debit(state, cost.into(), now);
        }
        (admitted, self.lazy_status(state, (cost, admitted), now))
    }

    /// Gives back the turn of a request that was dropped while it was delayed, if that does not
    /// release too many.
    #[doc(hidden)]
    fn withdraw(
        &self,
        _state: &mut Self::State,
        _admission: &LazyStatus,
        _cost: u32,
        _now: Timestamp,
    ) {
    }
}

#[cfg(test)]
mod tests;
