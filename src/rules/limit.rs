//! The limits of rules, by which a store decides.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::{
        Ending, KeyLimit, Limit, Policy, PolicyId,
        limit::OneKey,
        shadow::{ShadowSnapshot, ShadowState},
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
#[derive(Debug, Clone)]
pub(crate) struct RuleLimit {
    pub(crate) algorithm: AnyAlgorithm,
    pub(crate) in_shadow: bool,
    policy: PolicyId,
}

impl RuleLimit {
    pub(super) fn new(algorithm: AnyAlgorithm, in_shadow: bool) -> Self {
        // Part of the id: another algorithm has another type of state, so it needs other buckets.
        let kind = Policy::new("rule", &[algorithm.number()], Duration::ZERO).id();
        Self {
            policy: algorithm.policy().id().and(kind),
            algorithm,
            in_shadow,
        }
    }

    #[inline]
    fn has_room(&self, of: &ShadowState<AnyState>, cost: u32, now: Timestamp) -> bool {
        with_algorithm!(&self.algorithm, |rule| match &of.state {
            Kept(state) => rule.judge(state, cost, now),
            _ => false,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.algorithm.policy().name()
    }

    fn decided(&self, snapshot: &ShadowSnapshot<LazyStatus>) -> PolicyDecision {
        PolicyDecision::lazy(self.algorithm.policy(), snapshot.snapshot)
    }

    #[inline]
    fn status(&self, of: &AnyState, cost: u32, admitted: bool, now: Timestamp) -> LazyStatus {
        with_algorithm!(&self.algorithm, |rule| match of {
            Kept(state) => rule.snapshot(state, cost, admitted, now),
            _ => rule.snapshot(&rule.fresh(now), cost, admitted, now),
        })
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

impl Limit for RuleLimit {
    type Snapshot = ShadowSnapshot<LazyStatus>;
    type Keys = OneKey;

    fn each_policy(&self, tell: &mut dyn FnMut(&Policy)) {
        tell(self.algorithm.policy());
    }

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy
    }

    fn describe(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        let policy = self.decided(snapshot);
        tell(match self.in_shadow {
            true => policy.of_shadow(snapshot.would_refuse),
            false => policy,
        });
    }

    #[inline]
    fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration {
        match self.in_shadow {
            true => Duration::ZERO,
            false => with_algorithm!(&self.algorithm, |rule| rule.delay_of(&snapshot.snapshot)),
        }
    }
}

/// A state is always one of the limit's own algorithm, as others have other buckets.
impl KeyLimit for RuleLimit {
    type State = ShadowState<AnyState>;

    fn fresh(&self, at: Timestamp) -> Self::State {
        ShadowState {
            state: with_algorithm!(&self.algorithm, |rule| Kept(rule.fresh(at))),
            would_refuse: false,
        }
    }

    #[inline]
    fn judge(&self, of: &Self::State, cost: u32, now: Timestamp) -> bool {
        self.in_shadow || self.has_room(of, cost, now)
    }

    #[inline]
    fn charge(&self, of: &mut Self::State, cost: u32, now: Timestamp) {
        of.would_refuse = self.in_shadow && !self.has_room(of, cost, now);
        if !of.would_refuse {
            self.debit(of, cost.into(), now);
        }
    }

    fn debit(&self, of: &mut Self::State, units: u64, now: Timestamp) {
        with_algorithm!(&self.algorithm, |rule| if let Kept(state) = &mut of.state {
            rule.debit(state, units, now);
        });
    }

    fn refund(&self, of: &mut Self::State, cost: u32, now: Timestamp) {
        with_algorithm!(&self.algorithm, |rule| if let Kept(state) = &mut of.state {
            rule.refund(state, cost, now);
        });
    }

    #[inline]
    fn is_fresh(&self, of: &Self::State, now: Timestamp) -> bool {
        with_algorithm!(&self.algorithm, |rule| match &of.state {
            Kept(state) => rule.is_fresh(state, now),
            _ => false,
        })
    }

    fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State {
        let state = with_algorithm!(&self.algorithm, |rule| match &shared.state {
            Kept(state) => Kept(rule.inherit(state, now)),
            _ => Kept(rule.fresh(now)),
        });
        let would_refuse = false;
        ShadowState {
            state,
            would_refuse,
        }
    }

    #[inline]
    fn snapshot(
        &self,
        of: &Self::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot {
        let would_refuse = admitted && cost > 0 && of.would_refuse;
        let is_charged = admitted && !would_refuse;
        let (cost, admitted) = match self.in_shadow {
            true => (if is_charged { cost } else { 0 }, true),
            false => (cost, admitted),
        };
        ShadowSnapshot {
            snapshot: self.status(&of.state, cost, admitted, now),
            would_refuse,
        }
    }

    /// In one piece if it is enforced.
    #[inline]
    fn step(&self, of: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        if self.in_shadow {
            if cost > 0 {
                self.charge(of, cost, now);
            }
            return (true, self.snapshot(of, cost, true, now));
        }
        let (admitted, snapshot) = with_algorithm!(&self.algorithm, |rule| match &mut of.state {
            Kept(state) => rule.step(state, cost, now),
            other => (false, self.status(other, cost, false, now)),
        });
        (
            admitted,
            ShadowSnapshot {
                snapshot,
                would_refuse: false,
            },
        )
    }

    fn end(
        &self,
        of: &mut Self::State,
        admission: &Self::Snapshot,
        ending: Ending,
        now: Timestamp,
    ) {
        if !admission.would_refuse {
            with_algorithm!(&self.algorithm, |rule| if let Kept(state) = &mut of.state {
                rule.end(state, &admission.snapshot, ending, now);
            });
        }
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

    fn each_policy(&self, tell: &mut dyn FnMut(&Policy)) {
        tell(&Policy::new("rules", &[], Duration::ZERO));
    }

    fn describe(&self, snapshot: &RuleSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        for (limit, snapshot) in snapshot.each() {
            limit.describe(snapshot, tell);
        }
    }

    fn decision_of(&self, snapshot: &RuleSnapshot) -> Decision {
        let mut each = snapshot.each();
        if let (Some((limit, one)), None) = (each.next(), each.next())
            && !limit.in_shadow
        {
            return Decision::of_one(limit.decided(one));
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
