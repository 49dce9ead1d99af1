//! The limits of rules, by which a store decides.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        Algorithm, Policy, PolicyId, Shadow,
        shadow::{ShadowSnapshot, ShadowState},
    },
    clock::Timestamp,
    config::{AnyAlgorithm, AnySnapshot, AnyState},
    decision::{Decision, PolicyDecision},
    limit::{Limit, sealed},
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

fn charged<S>(snapshot: S) -> ShadowSnapshot<S> {
    ShadowSnapshot {
        snapshot,
        would_refuse: false,
    }
}

impl Algorithm for RuleLimit {
    type State = ShadowState<AnyState>;
    type Snapshot = ShadowSnapshot<AnySnapshot>;

    const HAS_SHADOWS: bool = true;

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy
    }

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
            false => charged((self.algorithm()).snapshot(&state.state, cost, admitted, now)),
        }
    }

    #[inline]
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        if self.in_shadow {
            return self.rule.step(state, cost, now);
        }
        let (admitted, snapshot) = self.algorithm().step(&mut state.state, cost, now);
        (admitted, charged(snapshot))
    }

    fn describe(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        if !self.in_shadow {
            self.algorithm().describe(&snapshot.snapshot, tell);
        }
    }

    fn describe_shadows(
        &self,
        snapshot: &Self::Snapshot,
        tell: &mut dyn FnMut(PolicyDecision, bool),
    ) {
        if self.in_shadow {
            self.rule.describe_shadows(snapshot, tell);
        }
    }

    #[inline]
    fn delay(&self, snapshot: &Self::Snapshot) -> Duration {
        match self.in_shadow {
            true => Duration::ZERO,
            false => self.algorithm().delay(&snapshot.snapshot),
        }
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
pub(crate) type NumberedSnapshot = (u32, ShadowSnapshot<AnySnapshot>);

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
    pub(crate) fn each(&self) -> impl Iterator<Item = (&RuleLimit, &ShadowSnapshot<AnySnapshot>)> {
        let snapshots = match &self.snapshots {
            Snapshots::One(snapshot) => std::slice::from_ref(snapshot),
            Snapshots::Several(snapshots) => snapshots,
        };
        (snapshots.iter()).map(|(limit, snapshot)| (self.limits.limit(*limit), snapshot))
    }
}

impl sealed::Sealed for RuleLimits {}

impl Limit for RuleLimits {
    type Snapshot = RuleSnapshot;
    type Keys = Self;

    const SETTLES: bool = false;
    const IN_FLIGHT: bool = false;
    const HAS_SHADOWS: bool = true;

    /// One id for all rules of all files: a bucket is found by the name of its limit.
    fn policies(&self) -> PolicyId {
        Policy::new("rules", &[], Duration::ZERO).id()
    }

    fn policy_names(&self) -> String {
        "rules".to_owned()
    }

    fn decision_of(&self, snapshot: &RuleSnapshot) -> Decision {
        if let Snapshots::One((number, of_one)) = &snapshot.snapshots {
            let limit = snapshot.limits.limit(*number);
            return match limit.in_shadow {
                true => Decision::of_no_policy(),
                false => limit.algorithm().decision(&of_one.snapshot),
            };
        }
        let mut policies = Vec::new();
        for (limit, snapshot) in snapshot.each() {
            limit.describe(snapshot, &mut |policy| policies.push(policy));
        }
        match policies.len() {
            0 => Decision::of_no_policy(),
            1 => Decision::of_one(policies.remove(0)),
            _ => Decision::of_all(policies),
        }
    }

    fn shadows_of(&self, snapshot: &RuleSnapshot, tell: &mut dyn FnMut(PolicyDecision, bool)) {
        for (limit, snapshot) in snapshot.each() {
            limit.describe_shadows(snapshot, tell);
        }
    }

    fn freed(&self, snapshot: &RuleSnapshot, _units: u32) -> RuleSnapshot {
        snapshot.clone()
    }

    #[inline]
    fn delay_of(&self, snapshot: &RuleSnapshot) -> Duration {
        if let Snapshots::One((number, of_one)) = &snapshot.snapshots {
            return snapshot.limits.limit(*number).delay(of_one);
        }
        let each = snapshot.each();
        let delays = each.map(|(limit, snapshot)| limit.delay(snapshot));
        delays.max().unwrap_or_default()
    }
}
