//! A limit that is rehearsed: it decides and counts, and never refuses.

use std::time::Duration;

use crate::{
    algorithm::{
        Additive, Algorithm, Ending, KeyLimit, Limit, Policy, PolicyId, Script, ScriptReply,
        Scripted, Settled, limit::OneKey, script::MemberReply,
    },
    clock::Timestamp,
    decision::PolicyDecision,
};

/// Lets every request through, and counts as if it were enforced: a limit is rehearsed beside
/// others, or alone, before it may refuse anybody.
///
/// It is made by `shadow()` on an algorithm, as the last of its setters:
/// [`TokenBucket::shadow`](super::TokenBucket::shadow). Take `.shadow()` away, and it is enforced.
///
/// - **Bound**: none; what it charges stays within that of the algorithm inside.
/// - **What it charges**: a request that all enforced limits beside it admit, if this one would
///   admit it too. So its state is that of the same limit, enforced alone, over exactly the
///   requests that the enforced limits admit. Several limits in shadow each count by themselves.
/// - **What callers see**: nothing. It is in no field and in none of
///   [`policies`](crate::Decision::policies), [`policy`](crate::Decision::policy),
///   [`remaining`](crate::Decision::remaining) and [`delay`](crate::Decision::delay); nobody waits
///   for it. Where all limits are in shadow, a decision is of no policy: admitted, with the largest
///   `u64` as its limit.
/// - **What it would do**: an [observer](crate::observe) sees it
///   ([`shadows_of`](Limit::shadows_of)); it is logged and counted as
///   `shadow_refused`.
/// - **Memory**: that of the algorithm inside.
/// - **Over Redis** its state lies where that of the enforced limit would, so that it keeps its
///   count when it is enforced, and processes of both kinds count together.
///   [`InFlight`](super::InFlight) is rehearsed in memory only; over Redis it does not compile.
/// - **Not for** a whole layer: [`enforce`](crate::RateLimitLayer::enforce) rehearses that, with
///   its costs and keys, for all callers or for some.
///
/// # Example: would a tenth of the daily quota be enough for an hour?
///
/// ```
/// use tollgate::algorithm::{FixedWindow, Limit};
/// use tollgate::store::{Ask, LocalStore, Store};
/// use tollgate::{Quota, RateLimiter};
///
/// let daily = FixedWindow::new(Quota::per_day(100)).named("daily");
/// let hourly = FixedWindow::new(Quota::per_hour(10)).named("hourly").shadow();
/// let limits = (daily, hourly);
/// let limiter = RateLimiter::new(limits.clone(), LocalStore::new());
///
/// let decision = limiter.check_cost("bob", 8).now();
/// assert!(decision.is_admitted());
/// let decision = limiter.check_cost("bob", 8).now();
/// assert!(decision.is_admitted(), "the hourly limit would refuse it");
/// assert_eq!((decision.policies().len(), decision.remaining()), (1, 84));
/// # let store = LocalStore::<_, String>::new();
/// # let mut told = Vec::new();
/// # for _ in 0..2 {
/// #     let tollgate::store::Answer::Now(verdict) = store.decide(&limits, "bob", Ask::Charge(8)) else { panic!() };
/// #     limits.shadows_of(&verdict.unwrap().snapshot, &mut |policy, refuses| {
/// #         told.push((policy.policy().to_owned(), policy.remaining(), refuses));
/// #     });
/// # }
/// # assert_eq!(told, [("hourly".to_owned(), 2, false), ("hourly".to_owned(), 2, true)]);
/// ```
#[derive(Debug, Clone)]
pub struct Shadow<A> {
    pub(crate) limit: A,
    /// Of a limit of [rules](crate::rules) the file says so; every other one is.
    pub(crate) in_shadow: bool,
}

/// The status of a limit in shadow right after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowSnapshot<S> {
    pub(crate) snapshot: S,
    pub(crate) would_refuse: bool,
}

/// Nobody waits for it.
impl<A: KeyLimit> Limit for Shadow<A> {
    type Snapshot = ShadowSnapshot<A::Snapshot>;
    type Keys = OneKey;

    const SETTLES: bool = A::SETTLES;
    const IN_FLIGHT: bool = A::IN_FLIGHT;

    fn unheld(&self) -> Self {
        Self {
            limit: self.limit.unheld(),
            in_shadow: self.in_shadow,
        }
    }

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        self.limit.each_policy(output);
    }

    fn policy_id(&self) -> PolicyId {
        self.limit.policy_id()
    }

    fn describe(&self, snapshot: &Self::Snapshot, output: &mut dyn FnMut(PolicyDecision)) {
        self.limit.describe(&snapshot.snapshot, &mut |policy| {
            output(match self.in_shadow {
                true => policy.of_shadow(snapshot.would_refuse),
                false => policy,
            });
        });
    }

    fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration {
        match self.in_shadow {
            true => Duration::ZERO,
            false => self.limit.delay_of(&snapshot.snapshot),
        }
    }
}

impl<A: KeyLimit> KeyLimit for Shadow<A> {
    type State = A::State;

    /// Every cost.
    fn judge(&self, state: &A::State, cost: u32, now: Timestamp) -> bool {
        self.in_shadow || self.limit.judge(state, cost, now)
    }

    fn debit(&self, state: &mut A::State, units: u64, now: Timestamp) {
        self.limit.debit(state, units, now);
    }

    fn holds(&self, state: &A::State, admission: &Self::Snapshot) -> bool {
        !admission.would_refuse && self.limit.holds(state, &admission.snapshot)
    }

    /// An admission that would have been refused holds nothing, and is charged nothing now.
    fn end(
        &self,
        state: &mut A::State,
        admission: &Self::Snapshot,
        ending: Ending,
        now: Timestamp,
    ) {
        if !admission.would_refuse {
            self.limit.end(state, &admission.snapshot, ending, now);
        }
    }

    fn refund(&self, state: &mut A::State, cost: u32, now: Timestamp) {
        self.limit.refund(state, cost, now);
    }

    fn is_fresh(&self, state: &A::State, now: Timestamp) -> bool {
        self.limit.is_fresh(state, now)
    }

    fn fresh(&self, at: Timestamp) -> A::State {
        self.limit.fresh(at)
    }

    fn inherit(&self, shared: &A::State, now: Timestamp) -> A::State {
        self.limit.inherit(shared, now)
    }

    fn snapshot(
        &self,
        state: &A::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot {
        let would_refuse = false;
        let snapshot = self.limit.snapshot(state, cost, admitted, now);
        ShadowSnapshot {
            snapshot,
            would_refuse,
        }
    }

    /// Charges what the algorithm inside admits. A cost that was not charged counts as 0.
    fn step(&self, state: &mut A::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        let (admitted, snapshot) = self.limit.step(state, cost, now);
        let would_refuse = self.in_shadow && !admitted;
        let snapshot = match would_refuse {
            true => self.limit.snapshot(state, 0, true, now),
            false => snapshot,
        };
        let snapshot = ShadowSnapshot {
            snapshot,
            would_refuse,
        };
        (admitted || self.in_shadow, snapshot)
    }
}

impl<A: Scripted> Scripted for Shadow<A> {
    fn script() -> Script {
        const {
            assert!(
                !A::IN_FLIGHT,
                "requests in flight are rehearsed in memory only: over Redis places would be renewed \
                 for requests that have none"
            );
        }
        A::script().with(|member| member.in_shadow = true)
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        self.limit.parameters(output);
    }

    fn holding(&self, output: &mut dyn FnMut(u64)) {
        self.limit.holding(output);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<A::State> {
        self.limit.state(at, numbers)
    }

    fn numbers(&self, state: &A::State, at: Timestamp, output: &mut dyn FnMut(u64)) {
        self.limit.numbers(state, at, output);
    }

    /// Whether it was charged, then the numbers of the algorithm.
    fn admission(&self, admission: &Self::Snapshot, output: &mut dyn FnMut(u64)) {
        output(u64::from(!admission.would_refuse));
        self.limit.admission(&admission.snapshot, output);
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<Self::Snapshot> {
        let member = reply.next()?;
        let would_refuse = member.charged && !member.admitted;
        let was_charged = member.charged && member.admitted;
        let own = MemberReply {
            cost: if was_charged { member.cost } else { 0 },
            admitted: true,
            ..member
        };
        Some(ShadowSnapshot {
            snapshot: self.limit.read(&mut vec![own].into_iter())?,
            would_refuse,
        })
    }
}

impl<A: Algorithm> Shadow<A> {
    /// Rehearses this algorithm; for one of your own. Those of this crate have a method `shadow`.
    ///
    /// A tuple does not compile: each of its members has a shadow of its own.
    ///
    /// # Example: not a tuple
    ///
    /// ```compile_fail,E0277
    /// use tollgate::{Quota, algorithm::{FixedWindow, Shadow}};
    ///
    /// let daily = FixedWindow::new(Quota::per_day(1));
    /// let _ = Shadow::new((daily.clone(), daily));
    /// ```
    pub const fn new(algorithm: A) -> Self {
        Self::of(algorithm)
    }
}

impl<A: Additive> Settled<A> {
    /// Rehearses the limit: it counts, and never refuses. See [`Shadow`].
    #[must_use]
    pub const fn shadow(self) -> Shadow<Self> {
        Shadow::of(self)
    }
}

impl<A> Shadow<A> {
    pub(crate) const fn of(limit: A) -> Self {
        let in_shadow = true;
        Self { limit, in_shadow }
    }
}
