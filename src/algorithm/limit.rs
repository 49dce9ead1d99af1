//! What a store decides by: an algorithm, several of them for one key, or one for each of several
//! keys.

use std::time::Duration;

use crate::{
    algorithm::{Algorithm, Policy, PolicyId},
    clock::Timestamp,
    decision::{Decision, JudgedCost, LazyStatus, PolicyDecision, Status},
};

/// What a request is held to: one [algorithm](crate::algorithm), a tuple of several, or [one for
/// each of several keys](crate::EachOf).
///
/// Every [`Algorithm`] is one: implement that, not this, to which methods may be added. They are
/// called once a [store](crate::store) has decided.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a rate-limiting algorithm nor an `EachOf` of several",
    label = "not an algorithm",
    note = "use one of `tollgate::algorithm`, such as `TokenBucket::new(Quota::per_second(20))`, a tuple of them, or implement `tollgate::algorithm::Algorithm`"
)]
pub trait Limit: Clone + Send + Sync + 'static {
    /// What the store returns: enough to make the [`Decision`] later.
    type Snapshot: Clone + Send + Sync + 'static;

    /// The keys that it needs: one, or one for each algorithm.
    #[doc(hidden)]
    type Keys;

    /// Whether an admission holds units, to be settled later.
    #[doc(hidden)]
    const SETTLES: bool = false;

    /// Whether an admission takes a place in flight, to be given back when the request has ended.
    #[doc(hidden)]
    const IN_FLIGHT: bool = false;

    /// The same limit, which holds nothing but charges at once.
    #[doc(hidden)]
    #[must_use]
    fn unheld(&self) -> Self {
        self.clone()
    }

    /// Calls `output` with each policy.
    fn each_policy(&self, output: &mut dyn FnMut(&Policy));

    /// The id of the policy, which names its buckets: of several policies one id of all.
    fn policy_id(&self) -> PolicyId {
        let mut all: Option<PolicyId> = None;
        self.each_policy(&mut |policy| {
            all = Some(all.map_or(policy.id(), |others| others.and(policy.id())));
        });
        all.expect("at least one policy")
    }

    /// The names of the policies, for events.
    fn policy_names(&self) -> String {
        let mut names = Vec::new();
        self.each_policy(&mut |policy| names.push(policy.kept_name().to_string()));
        names.join(", ")
    }

    /// Calls `output` with what each policy decided.
    fn describe(&self, snapshot: &Self::Snapshot, output: &mut dyn FnMut(PolicyDecision));

    /// Calls `output` with each policy in [shadow](Policy::shadow): with its status, and with
    /// whether it would have refused the cost that the others admitted. It was not charged such a
    /// cost: its status is then that of a cost of 0.
    #[inline]
    fn shadows_of(&self, snapshot: &Self::Snapshot, output: &mut dyn FnMut(PolicyDecision, bool)) {
        self.describe(snapshot, &mut |policy| {
            if let Some(would_refuse) = policy.in_shadow() {
                output(policy, would_refuse);
            }
        });
    }

    /// The decision about the request: what all policies that are not in shadow
    /// [decided](Self::describe), together.
    fn decision_of(&self, snapshot: &Self::Snapshot) -> Decision {
        let mut policies = Vec::with_capacity(2);
        self.describe(snapshot, &mut |policy| policies.push(policy));
        Decision::of(policies)
    }

    /// How long the admitted request must be delayed.
    fn delay_of(&self, _snapshot: &Self::Snapshot) -> Duration {
        Duration::ZERO
    }
}

/// A limit whose units all count for one key: an [`Algorithm`] or a tuple, but no
/// [`EachOf`](crate::EachOf).
///
/// One that is [settled](super::Settled) is a `KeyLimit`, too, and so is
/// [`InFlight`](super::InFlight). An algorithm's own methods are given what a request counts: each
/// may [count as 1](Policy::per_request), or pass [in shadow](Policy::shadow). That is done here.
///
/// A [store](crate::store) keeps one state for each *(policy, key)*, and decides by
/// [`Ask::decide`](crate::store::Ask::decide): a charge is a [`step`](Self::step), a look a
/// [`judge`](Self::judge) and a [`snapshot`](Self::snapshot). What changes a state otherwise is
/// [`Change::apply`](crate::store::Change::apply). Implement [`Algorithm`], not this.
pub trait KeyLimit: Limit<Keys = OneKey> {
    /// What is kept for each key.
    type State: Clone + Send + Sync + 'static;

    /// The state of a key that was never charged, as if last seen at `at`.
    fn fresh(&self, at: Timestamp) -> Self::State;

    /// Whether the cost is admitted. A cost of 0 always is.
    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool;

    /// Charges units, at least one, whether they fit or not.
    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp);

    /// Charges what many requests hold together.
    #[doc(hidden)]
    fn debit_held(&self, state: &mut Self::State, units: u64, now: Timestamp) {
        self.debit(state, units, now);
    }

    /// Gives units back: of more than it still counts, all.
    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp);

    /// Whether the state says no more than a fresh one, so that it may be forgotten.
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool;

    /// The first state of a key that leaves `shared`: see [`Algorithm::inherit`].
    fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State;

    /// The status right after the decision about this cost; if it was admitted, after its charge.
    /// A cost that would be admitted but is not charged is passed as 0. In shadow the status of a
    /// cost that is refused is that of a cost of 0.
    fn snapshot(
        &self,
        state: &Self::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot;

    /// The status of a key that is refused for so long, whatever its state is.
    #[doc(hidden)]
    fn refused_for(&self, wait: Duration, now: Timestamp) -> Self::Snapshot;

    /// A whole decision: [judges](Self::judge) the cost, charges or holds it if it is admitted, and
    /// takes the [snapshot](Self::snapshot).
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot);

    /// Whether the state still has what this admission holds, units or a place.
    fn holds(&self, _state: &Self::State, _admission: &Self::Snapshot) -> bool {
        false
    }

    /// Ends an admission, whose snapshot this is. What the state no longer [has](Self::holds) is
    /// not given back.
    fn end(
        &self,
        _state: &mut Self::State,
        _admission: &Self::Snapshot,
        _ending: Ending,
        _now: Timestamp,
    ) {
    }
}

/// How a request that was let through has ended, so that what it held is charged, freed or given
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is [settled](crate::algorithm::Settled): what was spent of the units that it holds is
    /// charged and the rest is freed; what was spent beyond them is charged too. Units that are no
    /// longer held, as it was too late or the key was reset, are neither charged nor freed.
    Settled {
        /// The units that it holds.
        held: u32,
        /// The units that were spent.
        spent: u32,
    },
    /// Its request was [in flight](crate::algorithm::InFlight) and has ended: the place is given
    /// back.
    Over,
    /// Its request was dropped while it waited in a queue, or before anybody knew of the admission:
    /// it gives back what it took, if that does not release too many.
    Withdrawn {
        /// What it was charged.
        cost: u32,
    },
}

/// The keys of an [algorithm](crate::algorithm): one.
#[doc(hidden)]
#[derive(Debug)]
pub struct OneKey(());

/// The keys of [several algorithms](crate::EachOf): one for each.
#[doc(hidden)]
#[derive(Debug)]
pub struct OneKeyForEach<const ALGORITHMS: usize>(());

impl<A: Algorithm> Limit for A {
    type Snapshot = LazyStatus;
    type Keys = OneKey;

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        output(self.policy());
    }

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy().id()
    }

    #[inline]
    fn describe(&self, snapshot: &LazyStatus, output: &mut dyn FnMut(PolicyDecision)) {
        output(PolicyDecision::lazy(self.policy(), *snapshot));
    }

    #[inline]
    fn decision_of(&self, snapshot: &LazyStatus) -> Decision {
        Decision::of_one(PolicyDecision::lazy(self.policy(), *snapshot))
    }

    #[inline]
    fn delay_of(&self, snapshot: &LazyStatus) -> Duration {
        match self.policy().is_in_shadow() {
            false => snapshot.delay(self.policy().limit()),
            true => Duration::ZERO,
        }
    }
}

impl<A: Algorithm> KeyLimit for A {
    type State = A::State;

    fn fresh(&self, at: Timestamp) -> A::State {
        Algorithm::fresh(self, at)
    }

    #[inline]
    fn judge(&self, state: &A::State, cost: u32, now: Timestamp) -> bool {
        let policy = self.policy();
        policy.is_in_shadow() || Algorithm::judge(self, state, policy.units(cost), now)
    }

    fn debit(&self, state: &mut A::State, units: u64, now: Timestamp) {
        Algorithm::debit(self, state, self.policy().units(units), now);
    }

    fn debit_held(&self, state: &mut A::State, units: u64, now: Timestamp) {
        Algorithm::debit(self, state, units, now);
    }

    fn refund(&self, state: &mut A::State, cost: u32, now: Timestamp) {
        Algorithm::refund(self, state, self.policy().units(cost), now);
    }

    #[inline]
    fn is_fresh(&self, state: &A::State, now: Timestamp) -> bool {
        Algorithm::is_fresh(self, state, now)
    }

    fn inherit(&self, shared: &A::State, now: Timestamp) -> A::State {
        Algorithm::inherit(self, shared, now)
    }

    #[inline]
    fn snapshot(&self, state: &A::State, cost: u32, admitted: bool, now: Timestamp) -> LazyStatus {
        let policy = self.policy();
        policy.as_enforced((policy.units(cost), admitted), |cost| {
            self.lazy_status(state, cost, now)
        })
    }

    fn refused_for(&self, wait: Duration, now: Timestamp) -> LazyStatus {
        self.policy()
            .as_enforced((1, false), |(_, admitted)| match admitted {
                true => self.lazy_status(&Algorithm::fresh(self, now), (0, true), now),
                false => LazyStatus::Known(Status::refused_for(wait.as_micros() as u64)),
            })
    }

    // Inlined always: a sixth of the instructions of a check (bench `instructions`).
    #[inline(always)]
    fn step(&self, state: &mut A::State, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let policy = self.policy();
        let (admitted, status) = Algorithm::step(self, state, policy.units(cost), now);
        match admitted || !policy.is_in_shadow() {
            true => (admitted, status),
            false => (true, self.snapshot(state, cost, false, now)),
        }
    }

    fn end(&self, state: &mut A::State, admission: &LazyStatus, ending: Ending, now: Timestamp) {
        if let Ending::Withdrawn { cost } = ending {
            self.withdraw(state, admission, self.policy().units(cost), now);
        }
    }
}

impl Policy {
    /// The status of a cost that is admitted or refused: in shadow nothing is refused.
    #[inline]
    pub(super) fn as_enforced(
        &self,
        (cost, admitted): JudgedCost,
        status: impl Fn(JudgedCost) -> LazyStatus,
    ) -> LazyStatus {
        match admitted || !self.is_in_shadow() {
            true => status((cost, admitted)),
            false => LazyStatus::WouldRefuse(status((0, true)).resolve(self.limit())),
        }
    }
}
