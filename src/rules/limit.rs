//! The limits of rules, by which a store decides.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        Ending, KeyLimit, Limit, Policy, PolicyId, Shadow, limit::OneKey, shadow::ShadowSnapshot,
    },
    clock::Timestamp,
    config::{AnyAlgorithm, AnyState, with_algorithm},
    decision::{Decision, LazyStatus, PolicyDecision},
};

use super::few::Few;

/// The most limits that may apply to one request.
pub(crate) const MAX_LIMITS: usize = 16;

/// The limits of the rules that a request has matched; [`RuleKey`](super::RuleKey) says which.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleLimits;

/// One limit of a rule: it is enforced, or it is in shadow and keeps the same state.
pub(crate) type RuleLimit = Shadow<AnyAlgorithm>;

impl RuleLimit {
    pub(super) fn name(&self) -> &str {
        self.limit.policy().name()
    }
}

// A store has a table for each policy, so no limit is given a state of another rule: nothing would
// fit.
impl Limit for AnyAlgorithm {
    type Snapshot = LazyStatus;
    type Keys = OneKey;

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        output(self.policy());
    }

    /// Another algorithm has another type of state, so it needs other buckets.
    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy().id().and_number(self.number())
    }

    fn describe(&self, snapshot: &LazyStatus, output: &mut dyn FnMut(PolicyDecision)) {
        output(PolicyDecision::lazy(self.policy(), *snapshot));
    }

    #[inline]
    fn decision_of(&self, snapshot: &LazyStatus) -> Decision {
        Decision::of_one(PolicyDecision::lazy(self.policy(), *snapshot))
    }

    #[inline]
    fn delay_of(&self, snapshot: &LazyStatus) -> Duration {
        with_algorithm!(self, |rule| rule.delay_of(snapshot))
    }
}

impl KeyLimit for AnyAlgorithm {
    type State = AnyState;

    fn fresh(&self, at: Timestamp) -> AnyState {
        with_algorithm!(self, |rule| Kept(rule.fresh(at)))
    }

    #[inline]
    fn judge(&self, state: &AnyState, cost: u32, now: Timestamp) -> bool {
        with_algorithm!(self, |rule| match state {
            Kept(state) => rule.judge(state, cost, now),
            _ => false,
        })
    }

    fn debit(&self, state: &mut AnyState, units: u64, now: Timestamp) {
        with_algorithm!(self, |rule| if let Kept(state) = state {
            rule.debit(state, units, now);
        });
    }

    fn refund(&self, state: &mut AnyState, cost: u32, now: Timestamp) {
        with_algorithm!(self, |rule| if let Kept(state) = state {
            rule.refund(state, cost, now);
        });
    }

    #[inline]
    fn is_fresh(&self, state: &AnyState, now: Timestamp) -> bool {
        with_algorithm!(self, |rule| match state {
            Kept(state) => rule.is_fresh(state, now),
            _ => false,
        })
    }

    fn inherit(&self, shared: &AnyState, now: Timestamp) -> AnyState {
        with_algorithm!(self, |rule| match shared {
            Kept(state) => Kept(rule.inherit(state, now)),
            _ => Kept(rule.fresh(now)),
        })
    }

    #[inline]
    fn snapshot(&self, state: &AnyState, cost: u32, admitted: bool, now: Timestamp) -> LazyStatus {
        with_algorithm!(self, |rule| match state {
            Kept(state) => rule.snapshot(state, cost, admitted, now),
            _ => rule.snapshot(&rule.fresh(now), cost, admitted, now),
        })
    }

    #[inline]
    fn step(&self, state: &mut AnyState, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        with_algorithm!(self, |rule| match state {
            Kept(state) => rule.step(state, cost, now),
            other => (false, self.snapshot(other, cost, false, now)),
        })
    }

    fn end(&self, state: &mut AnyState, admission: &LazyStatus, ending: Ending, now: Timestamp) {
        with_algorithm!(self, |rule| if let Kept(state) = state {
            rule.end(state, admission, ending, now);
        });
    }
}

/// The limits of all rules and plans of a file, by their numbers.
#[derive(Default)]
pub(crate) struct LimitTable(pub(super) Vec<RuleLimit>);

impl LimitTable {
    #[inline]
    pub(crate) fn limit(&self, number: u32) -> &RuleLimit {
        &self.0[number as usize]
    }
}

/// The snapshots of a request's buckets, under the rules that it matched.
#[derive(Clone)]
pub struct RuleSnapshot {
    limits: Arc<LimitTable>,
    snapshots: Few<NumberedSnapshot>,
}

/// The number of a limit, and the snapshot of its bucket.
pub(crate) type NumberedSnapshot = (u32, ShadowSnapshot<LazyStatus>);

impl RuleSnapshot {
    #[inline]
    pub(crate) fn one(limits: Arc<LimitTable>, snapshot: NumberedSnapshot) -> Self {
        let snapshots = Few::One(snapshot);
        Self { limits, snapshots }
    }

    pub(crate) fn several(
        limits: Arc<LimitTable>,
        snapshots: impl IntoIterator<Item = NumberedSnapshot>,
    ) -> Self {
        let snapshots = snapshots.into_iter().collect();
        Self { limits, snapshots }
    }

    /// Each limit with the snapshot of its bucket, in the order of the rules.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&RuleLimit, &ShadowSnapshot<LazyStatus>)> {
        let each = self.snapshots.as_slice().iter();
        each.map(|(limit, snapshot)| (self.limits.limit(*limit), snapshot))
    }
}

impl Limit for RuleLimits {
    type Snapshot = RuleSnapshot;
    type Keys = Self;

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        output(&Policy::new("rules", &[], Duration::ZERO));
    }

    fn describe(&self, snapshot: &RuleSnapshot, output: &mut dyn FnMut(PolicyDecision)) {
        for (limit, snapshot) in snapshot.each() {
            limit.describe(snapshot, output);
        }
    }

    fn decision_of(&self, snapshot: &RuleSnapshot) -> Decision {
        let mut each = snapshot.each();
        if let (Some((limit, one)), None) = (each.next(), each.next())
            && !limit.in_shadow
        {
            return limit.limit.decision_of(&one.snapshot);
        }
        let mut policies = Vec::new();
        self.describe(snapshot, &mut |policy| policies.push(policy));
        Decision::of(policies).unwrap_or_else(Decision::of_no_policy)
    }

    #[inline]
    fn delay_of(&self, snapshot: &RuleSnapshot) -> Duration {
        if let Few::One((number, one)) = &snapshot.snapshots {
            return snapshot.limits.limit(*number).delay_of(one);
        }
        let each = snapshot.each();
        let delays = each.map(|(limit, snapshot)| limit.delay_of(snapshot));
        delays.max().unwrap_or_default()
    }
}
