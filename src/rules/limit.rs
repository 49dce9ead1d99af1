//! The limits of rules, by which a store decides.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        KeyLimit, Limit, Policy, PolicyId, Shadow,
        limit::OneKey,
        shadow::{ShadowSnapshot, ShadowState},
    },
    clock::Timestamp,
    config::{AnyAlgorithm, AnyState},
    decision::{Decision, LazyStatus, PolicyDecision},
};

/// The most limits that may apply to one request.
pub(crate) const MAX_LIMITS: usize = 16;

/// The limits of the rules that a request has matched; [`RuleKey`](super::RuleKey) says which.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuleLimits;

/// One limit of a rule: it is enforced, or it is in shadow and keeps the same state.
#[derive(Debug, Clone)]
pub(crate) struct RuleLimit {
    pub(crate) rule: Shadow<AnyAlgorithm>,
    pub(crate) in_shadow: bool,
    policy: PolicyId,
}

impl RuleLimit {
    pub(super) fn new(algorithm: AnyAlgorithm, in_shadow: bool) -> Self {
        // Part of the id: another algorithm has another type of state, so it needs other buckets.
        let kind = Policy::new("rule", &[algorithm.number()], Duration::ZERO).id();
        Self {
            policy: algorithm.policy_id().and(kind),
            rule: Shadow::new(algorithm),
            in_shadow,
        }
    }

    /// The algorithm itself.
    pub(crate) fn algorithm(&self) -> &AnyAlgorithm {
        &self.rule.0
    }
}

/// The limits of all rules and plans of a file, by their numbers, each with its name.
#[derive(Default)]
pub(crate) struct LimitTable(pub(super) Vec<(RuleLimit, Box<str>)>);

impl LimitTable {
    #[inline]
    pub(crate) fn limit(&self, number: u32) -> &RuleLimit {
        &self.0[number as usize].0
    }

    pub(super) fn name(&self, number: u32) -> &str {
        &self.0[number as usize].1
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, name)| &**name)
    }
}

impl Limit for RuleLimit {
    type Snapshot = ShadowSnapshot<LazyStatus>;
    type Keys = OneKey;

    const SETTLES: bool = false;
    const IN_FLIGHT: bool = false;
    const HAS_SHADOWS: bool = true;

    fn each_policy(&self, tell: &mut dyn FnMut(&Policy)) {
        self.rule.each_policy(tell);
    }

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy
    }

    fn describe(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        if !self.in_shadow {
            self.algorithm().describe(&snapshot.snapshot, tell);
        }
    }

    fn shadows_of(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision, bool)) {
        if self.in_shadow {
            self.rule.shadows_of(snapshot, tell);
        }
    }

    #[inline]
    fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration {
        match self.in_shadow {
            true => Duration::ZERO,
            false => self.algorithm().delay_of(&snapshot.snapshot),
        }
    }
}

impl KeyLimit for RuleLimit {
    type State = ShadowState<AnyState>;

    fn fresh(&self, at: Timestamp) -> Self::State {
        self.rule.fresh(at)
    }

    #[inline]
    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool {
        self.in_shadow || self.algorithm().judge(&state.state, cost, now)
    }

    #[inline]
    fn charge(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        match self.in_shadow {
            true => self.rule.charge(state, cost, now),
            false => self.algorithm().charge(&mut state.state, cost, now),
        }
    }

    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp) {
        self.rule.debit(state, units, now);
    }

    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        self.rule.refund(state, cost, now);
    }

    #[inline]
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
        self.rule.is_fresh(state, now)
    }

    fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State {
        self.rule.inherit(shared, now)
    }

    #[inline]
    fn snapshot(
        &self,
        state: &Self::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot {
        match self.in_shadow {
            true => self.rule.snapshot(state, cost, admitted, now),
            false => ShadowSnapshot::of_charged((self.algorithm()).snapshot(
                &state.state,
                cost,
                admitted,
                now,
            )),
        }
    }

    #[inline]
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        if self.in_shadow {
            return self.rule.step(state, cost, now);
        }
        let (admitted, snapshot) = self.algorithm().step(&mut state.state, cost, now);
        (admitted, ShadowSnapshot::of_charged(snapshot))
    }

    fn withdraw(
        &self,
        state: &mut Self::State,
        admission: &Self::Snapshot,
        cost: u32,
        now: Timestamp,
    ) {
        self.rule.withdraw(state, admission, cost, now);
    }
}

/// The snapshots of a request's buckets, under the rules that it matched.
#[derive(Clone)]
pub struct RuleSnapshot {
    limits: Arc<LimitTable>,
    snapshots: Snapshots,
}

#[derive(Clone)]
enum Snapshots {
    One(NumberedSnapshot),
    Several(Arc<[NumberedSnapshot]>),
}

/// The number of a limit, and the snapshot of its bucket.
pub(crate) type NumberedSnapshot = (u32, ShadowSnapshot<LazyStatus>);

impl RuleSnapshot {
    #[inline]
    pub(crate) fn one(limits: Arc<LimitTable>, snapshot: NumberedSnapshot) -> Self {
        let snapshots = Snapshots::One(snapshot);
        Self { limits, snapshots }
    }

    pub(crate) fn several(
        limits: Arc<LimitTable>,
        snapshots: impl IntoIterator<Item = NumberedSnapshot>,
    ) -> Self {
        let snapshots = Snapshots::Several(snapshots.into_iter().collect());
        Self { limits, snapshots }
    }

    /// Each limit with the snapshot of its bucket, in the order of the rules.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&RuleLimit, &ShadowSnapshot<LazyStatus>)> {
        let snapshots = match &self.snapshots {
            Snapshots::One(snapshot) => std::slice::from_ref(snapshot),
            Snapshots::Several(snapshots) => snapshots,
        };
        (snapshots.iter()).map(|(limit, snapshot)| (self.limits.limit(*limit), snapshot))
    }
}

impl Limit for RuleLimits {
    type Snapshot = RuleSnapshot;
    type Keys = Self;

    const SETTLES: bool = false;
    const IN_FLIGHT: bool = false;
    const HAS_SHADOWS: bool = true;

    fn each_policy(&self, tell: &mut dyn FnMut(&Policy)) {
        tell(&Policy::new("rules", &[], Duration::ZERO));
    }

    fn describe(&self, snapshot: &RuleSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        for (limit, snapshot) in snapshot.each() {
            limit.describe(snapshot, tell);
        }
    }

    fn decision_of(&self, snapshot: &RuleSnapshot) -> Decision {
        let mut policies = Vec::new();
        if let Snapshots::One((number, of_one)) = &snapshot.snapshots {
            let limit = snapshot.limits.limit(*number);
            if !limit.in_shadow {
                return limit.algorithm().decision_of(&of_one.snapshot);
            }
        }
        self.describe(snapshot, &mut |policy| policies.push(policy));
        Decision::of(policies).unwrap_or_else(Decision::of_no_policy)
    }

    fn shadows_of(&self, snapshot: &RuleSnapshot, tell: &mut dyn FnMut(PolicyDecision, bool)) {
        for (limit, snapshot) in snapshot.each() {
            limit.shadows_of(snapshot, tell);
        }
    }

    #[inline]
    fn delay_of(&self, snapshot: &RuleSnapshot) -> Duration {
        if let Snapshots::One((number, of_one)) = &snapshot.snapshots {
            return snapshot.limits.limit(*number).delay_of(of_one);
        }
        let each = snapshot.each();
        let delays = each.map(|(limit, snapshot)| limit.delay_of(snapshot));
        delays.max().unwrap_or_default()
    }
}
