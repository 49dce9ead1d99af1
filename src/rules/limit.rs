//! The limits of rules, by which a store decides.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{Algorithm, Limit, Policy, PolicyId, Status},
    clock::Timestamp,
    config::{AnyAlgorithm, AnyState, with_algorithm, with_state},
    decision::{Decision, Few, JudgedCost, LazyStatus, PolicyDecision},
};

/// The algorithm in the type of a store for [`Rules`](super::Rules): `LocalStore<RuleLimits,
/// RuleKey>`. The [key](super::RuleKey) says which limits apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleLimits;

impl AnyAlgorithm {
    pub(super) fn name(&self) -> &str {
        self.policy().name()
    }

    /// What names its buckets in memory: another algorithm has another type of state.
    #[inline]
    pub(crate) fn table_id(&self) -> PolicyId {
        self.policy_id().and(PolicyId::from_bits(self.number()))
    }
}

impl Algorithm for AnyAlgorithm {
    type State = AnyState;

    #[inline]
    fn policy(&self) -> &Policy {
        with_algorithm!(self, |rule| rule.policy())
    }

    fn fresh(&self, at: Timestamp) -> AnyState {
        with_algorithm!(self, |rule| Kept(rule.fresh(at)))
    }

    #[inline]
    fn judge(&self, state: &AnyState, cost: u32, now: Timestamp) -> bool {
        with_state!(self, state, |rule, state| rule.judge(state, cost, now))
    }

    fn debit(&self, state: &mut AnyState, units: u64, now: Timestamp) {
        with_state!(self, state, |rule, state| rule.debit(state, units, now));
    }

    fn refund(&self, state: &mut AnyState, cost: u32, now: Timestamp) {
        with_state!(self, state, |rule, state| rule.refund(state, cost, now));
    }

    #[inline]
    fn is_fresh(&self, state: &AnyState, now: Timestamp) -> bool {
        with_state!(self, state, |rule, state| rule.is_fresh(state, now))
    }

    fn status(&self, state: &AnyState, cost: u32, admitted: bool, now: Timestamp) -> Status {
        with_state!(self, state, |rule, state| rule
            .status(state, cost, admitted, now))
    }

    fn inherit(&self, shared: &AnyState, now: Timestamp) -> AnyState {
        with_state!(self, shared, |rule, state| Kept(rule.inherit(state, now)))
    }

    #[inline]
    fn lazy_status(&self, state: &AnyState, cost: JudgedCost, now: Timestamp) -> LazyStatus {
        with_state!(self, state, |rule, state| rule
            .lazy_status(state, cost, now))
    }

    #[inline]
    fn step(&self, state: &mut AnyState, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        with_state!(self, state, |rule, state| rule.step(state, cost, now))
    }

    fn withdraw(&self, state: &mut AnyState, admission: &LazyStatus, cost: u32, now: Timestamp) {
        with_state!(self, state, |rule, state| rule
            .withdraw(state, admission, cost, now));
    }
}

/// Each limit of a request with the snapshot of its bucket, in the order of the rules.
#[derive(Clone)]
pub struct RuleSnapshot(pub(crate) Few<(Arc<AnyAlgorithm>, LazyStatus)>);

impl RuleSnapshot {
    pub(crate) fn each(&self) -> impl Iterator<Item = (&AnyAlgorithm, &LazyStatus)> {
        let each = self.0.as_slice().iter();
        each.map(|(limit, snapshot)| (&**limit, snapshot))
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
        // One limit is told without a list: a tenth of what a request by rules takes with fields.
        if let (Some((limit, one)), None) = (each.next(), each.next()) {
            return limit.decision_of(one);
        }
        let mut policies = Vec::new();
        self.describe(snapshot, &mut |policy| policies.push(policy));
        Decision::of(policies)
    }

    #[inline]
    fn delay_of(&self, snapshot: &RuleSnapshot) -> Duration {
        let delays = snapshot.each();
        let delays = delays.map(|(limit, snapshot)| limit.delay_of(snapshot));
        delays.max().unwrap_or_default()
    }
}
