//! The algorithms: pure rules that say what is let through, and when.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
};

mod fixed_window;
mod gcra;
mod leaky_bucket;
mod log;
mod meter;
mod min_interval;
mod same_rule;
mod scale;
mod sliding_buckets;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod tuple;

pub use crate::decision::{Outcome, Standing};
pub use crate::policy::{Policy, PolicyId};
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use leaky_bucket::{LeakyBucket, LeakyBucketQueue};
pub use min_interval::MinInterval;
pub use sliding_buckets::SlidingBuckets;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// A rule that admits or refuses costs, as a pure step over the state of one bucket.
///
/// It reads no clock, takes no lock and does no I/O; a [store](crate::store) keeps one state per
/// *(policy, key)* and calls these methods in this order, with nothing in between:
/// [`settle`](Self::settle), [`judge`](Self::judge), [`charge`](Self::charge) if admitted,
/// [`snapshot`](Self::snapshot).
///
/// # What an implementor must do
///
/// - Count time that steps backwards as no time passed, except for what `settle` says.
/// - Admit monotonously: a cost that would be admitted now would be admitted later too, if nothing else is charged.
/// - Change nothing but in `settle`, `charge` and `refund`.
/// - Never wrap or panic, whatever the cost and the time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate-limiting algorithm",
    label = "not an algorithm",
    note = "use one of `tollgate::algorithm` (`TokenBucket::new(Quota::per_second(20))`, say), a tuple of them, or implement `tollgate::algorithm::Algorithm`"
)]
pub trait Algorithm: Clone + Send + Sync + 'static {
    /// What is kept for each key.
    type State: Clone + Send + 'static;

    /// What is carried out of the lock: enough to say later how the bucket stood at that instant.
    type Snapshot: Clone + Send + 'static;

    /// Whose buckets these are.
    fn policy_id(&self) -> PolicyId;

    /// The state of a key that was never charged, as if last seen at `at`.
    fn fresh(&self, at: Timestamp) -> Self::State;

    /// Mends a state whose stamp lies more than one full span (from most charged to fresh) after `now`: the stamp
    /// becomes `now` and the debt is kept, so that a clock that stepped back locks nobody out.
    fn settle(&self, state: &mut Self::State, now: Timestamp);

    /// Whether the cost is admitted. A cost of 0 always is.
    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool;

    /// Charges a cost of 1 or more that [`judge`](Self::judge) has admitted at this same instant.
    fn charge(&self, state: &mut Self::State, cost: u32, now: Timestamp);

    /// Gives units back, never more than were charged.
    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp);

    /// Whether the state says no more than a fresh one, so that it may be forgotten.
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool;

    /// How the bucket stands, after the decision about this cost.
    fn snapshot(
        &self,
        state: &Self::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot;

    /// All of it, as a store does it: settles, judges, charges if admitted, and reads the snapshot.
    ///
    /// Override it only to say the same in fewer steps.
    #[inline(always)]
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        self.settle(state, now);
        let admitted = self.judge(state, cost, now);
        if admitted && cost > 0 {
            self.charge(state, cost, now);
        }
        (admitted, self.snapshot(state, cost, admitted, now))
    }

    /// Tells what each policy decided: one call for each.
    fn describe(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision));

    /// The decision that a snapshot stands for: what is [described](Self::describe), together.
    fn decision(&self, snapshot: &Self::Snapshot) -> Decision {
        let mut first = None;
        let mut others = Vec::new();
        self.describe(snapshot, &mut |policy| match first {
            None => first = Some(policy),
            Some(_) => others.push(policy),
        });
        let first = first.expect("an algorithm tells of at least one policy");
        if others.is_empty() {
            return Decision::of_one(first);
        }
        others.insert(0, first);
        Decision::of_all(others)
    }

    /// How long the admitted request must be held back.
    #[inline]
    fn delay(&self, _snapshot: &Self::Snapshot) -> Duration {
        Duration::ZERO
    }

    /// Gives back the place of a request that was dropped while it was held back, if it can be given
    /// back without releasing too many; `admission` is the snapshot of its admission.
    #[inline]
    fn withdraw(
        &self,
        _state: &mut Self::State,
        _admission: &Self::Snapshot,
        _cost: u32,
        _now: Timestamp,
    ) {
    }
}
