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
/// - **Memory**: that of the algorithm inside, and up to 8 bytes per key.
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

/// The state of a limit in shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowState<S> {
    pub(crate) state: S,
    /// Whether it would have refused what was admitted last.
    pub(crate) would_refuse: bool,
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

    fn each_policy(&self, output: &mut dyn FnMut(&Policy)) {
        self.limit.each_policy(output);
    }

    #[inline]
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

    #[inline]
    fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration {
        match self.in_shadow {
            true => Duration::ZERO,
            false => self.limit.delay_of(&snapshot.snapshot),
        }
    }
}

impl<A: KeyLimit> KeyLimit for Shadow<A> {
    type State = ShadowState<A::State>;

    /// Every cost.
    #[inline]
    fn judge(&self, state: &Self::State, cost: u32, now: Timestamp) -> bool {
        self.in_shadow || self.limit.judge(&state.state, cost, now)
    }

    /// Charges what the algorithm inside admits.
    #[inline]
    fn charge(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        state.would_refuse = self.in_shadow && !self.limit.judge(&state.state, cost, now);
        if !state.would_refuse {
            self.limit.charge(&mut state.state, cost, now);
        }
    }

    fn debit(&self, state: &mut Self::State, units: u64, now: Timestamp) {
        self.limit.debit(&mut state.state, units, now);
    }

    fn holds(&self, state: &Self::State, admission: &Self::Snapshot) -> bool {
        !admission.would_refuse && self.limit.holds(&state.state, &admission.snapshot)
    }

    /// An admission that would have been refused holds nothing, and is charged nothing now.
    fn end(
        &self,
        state: &mut Self::State,
        admission: &Self::Snapshot,
        ending: Ending,
        now: Timestamp,
    ) {
        if !admission.would_refuse {
            let admission = &admission.snapshot;
            self.limit.end(&mut state.state, admission, ending, now);
        }
    }

    fn refund(&self, state: &mut Self::State, cost: u32, now: Timestamp) {
        self.limit.refund(&mut state.state, cost, now);
    }

    #[inline]
    fn is_fresh(&self, state: &Self::State, now: Timestamp) -> bool {
        self.limit.is_fresh(&state.state, now)
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Self::State {
        ShadowState {
            state: self.limit.fresh(at),
            would_refuse: false,
        }
    }

    #[inline]
    fn inherit(&self, shared: &Self::State, now: Timestamp) -> Self::State {
        ShadowState {
            state: self.limit.inherit(&shared.state, now),
            would_refuse: false,
        }
    }

    /// A cost that was not charged counts as 0.
    #[inline]
    fn snapshot(
        &self,
        state: &Self::State,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> Self::Snapshot {
        let would_refuse = admitted && cost > 0 && state.would_refuse;
        let is_charged = admitted && !would_refuse;
        let (cost, admitted) = match self.in_shadow {
            true => (if is_charged { cost } else { 0 }, true),
            false => (cost, admitted),
        };
        ShadowSnapshot {
            snapshot: self.limit.snapshot(&state.state, cost, admitted, now),
            would_refuse,
        }
    }

    #[inline]
    fn step(&self, state: &mut Self::State, cost: u32, now: Timestamp) -> (bool, Self::Snapshot) {
        if self.in_shadow {
            if cost > 0 {
                self.charge(state, cost, now);
            }
            return (true, self.snapshot(state, cost, true, now));
        }
        let (admitted, snapshot) = self.limit.step(&mut state.state, cost, now);
        let would_refuse = false;
        (
            admitted,
            ShadowSnapshot {
                snapshot,
                would_refuse,
            },
        )
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

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Self::State> {
        Some(ShadowState {
            state: self.limit.state(at, numbers)?,
            would_refuse: false,
        })
    }

    fn numbers(&self, state: &Self::State, at: Timestamp, output: &mut dyn FnMut(u64)) {
        self.limit.numbers(&state.state, at, output);
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
