use std::time::Duration;

use crate::{
    algorithm::{Algorithm, PolicyId, Script, ScriptReply, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
};

/// Charges each request 1, whatever it costs, and admits it if the algorithm inside admits a cost
/// of 1: so that one tuple limits requests *and* what they cost.
///
/// A request of cost 0 is admitted and charges nothing, here too. The method `per_request` of every
/// algorithm makes one: [`TokenBucket::per_request`](super::TokenBucket::per_request).
///
/// - **Bound**: as many requests (of a cost of 1 or more) as the algorithm inside lets units
///   through.
/// - **Memory**: that of the algorithm inside.
/// - **Not for** a refund of a part: a refund of 1 or more gives one request back.
/// - **Decision**: the limit and what remains are requests.
/// - **Policy**: without a name of its own it has the name of the algorithm inside with
///   `-per-request` appended, and buckets of its own. With a [name](super::TokenBucket::named),
///   given before or after, it *is* that name: a plain limit of that name over the same Redis
///   shares its buckets, as if this one's requests all had a cost of 1.
///
/// # Example: two requests a minute, and a thousand tokens
///
/// ```
/// use tollgate::{Quota, RateLimiter};
/// use tollgate::{algorithm::TokenBucket, store::LocalStore};
///
/// let limits = (
///     TokenBucket::new(Quota::per_minute(2)).named("requests").per_request(),
///     TokenBucket::new(Quota::per_minute(1_000)).named("tokens"),
/// );
/// let limiter = RateLimiter::new(limits, LocalStore::new());
/// assert!(limiter.check_cost("bob", 600).now().is_admitted());
/// assert_eq!(limiter.check_cost("bob", 600).now().policy(), "tokens");
/// assert!(limiter.check_cost("bob", 100).now().is_admitted());
/// assert_eq!(limiter.check_cost("bob", 100).now().policy(), "requests");
/// ```
///
/// # Example: an algorithm of your own
///
/// ```
/// use tollgate::algorithm::{FixedWindow, PerRequest};
/// use tollgate::{Quota, RateLimiter, store::LocalStore};
///
/// // This stands for your own algorithm. Its policy keeps its name.
/// let own = FixedWindow::new(Quota::per_day(1)).named("daily-requests");
/// let limiter = RateLimiter::new(PerRequest::new(own), LocalStore::new());
/// assert!(limiter.check_cost("bob", 70).now().is_admitted());
/// assert!(!limiter.check("bob").now().is_admitted());
/// ```
#[derive(Debug, Clone)]
pub struct PerRequest<A>(pub(super) A);

impl<A: Algorithm> PerRequest<A> {
    /// Counts requests by this algorithm. Its policy stays the same: name it differently if the
    /// plain algorithm is in use too. (The algorithms of this crate have a method for it.)
    pub const fn new(algorithm: A) -> Self {
        Self(algorithm)
    }
}

/// What a request of this cost is charged.
#[inline]
fn one(cost: u32) -> u32 {
    cost.min(1)
}

impl<A: Algorithm> Algorithm for PerRequest<A> {
    type State = A::State;
    type Snapshot = A::Snapshot;

    const SETTLES: bool = A::SETTLES;
    const IN_FLIGHT: bool = A::IN_FLIGHT;
    const HAS_SHADOWS: bool = A::HAS_SHADOWS;
    const IS_TUPLE: bool = A::IS_TUPLE;

    #[inline]
    fn judge(&self, state: &A::State, cost: u32, now: Timestamp) -> bool {
        self.0.judge(state, one(cost), now)
    }

    #[inline]
    fn charge(&self, state: &mut A::State, cost: u32, now: Timestamp) {
        self.0.charge(state, one(cost), now);
    }

    /// One request, however many units.
    fn debit(&self, state: &mut A::State, units: u64, now: Timestamp) {
        self.0.debit(state, units.min(1), now);
    }

    fn holds(&self, state: &A::State, admission: &A::Snapshot) -> bool {
        self.0.holds(state, admission)
    }

    fn settle(
        &self,
        state: &mut A::State,
        admission: &A::Snapshot,
        (held, spent): (u32, u32),
        now: Timestamp,
    ) {
        let held_and_spent = (one(held), one(spent));
        self.0.settle(state, admission, held_and_spent, now);
    }

    fn end(&self, state: &mut A::State, admission: &A::Snapshot, now: Timestamp) {
        self.0.end(state, admission, now);
    }

    fn refund(&self, state: &mut A::State, cost: u32, now: Timestamp) {
        self.0.refund(state, one(cost), now);
    }

    #[inline]
    fn is_fresh(&self, state: &A::State, now: Timestamp) -> bool {
        self.0.is_fresh(state, now)
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> A::State {
        self.0.fresh(at)
    }

    #[inline]
    fn inherit(&self, shared: &A::State, now: Timestamp) -> A::State {
        self.0.inherit(shared, now)
    }

    #[inline]
    fn snapshot(&self, state: &A::State, cost: u32, admitted: bool, now: Timestamp) -> A::Snapshot {
        self.0.snapshot(state, one(cost), admitted, now)
    }

    // Inlined always: a check of a token bucket takes 0.70 of governor's time so, and 0.82
    // otherwise (bench `decision`).
    #[inline(always)]
    fn step(&self, state: &mut A::State, cost: u32, now: Timestamp) -> (bool, A::Snapshot) {
        self.0.step(state, one(cost), now)
    }

    fn describe(&self, snapshot: &A::Snapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        self.0.describe(snapshot, tell);
    }

    fn describe_shadows(&self, snapshot: &A::Snapshot, tell: &mut dyn FnMut(PolicyDecision, bool)) {
        self.0.describe_shadows(snapshot, tell);
    }

    #[inline]
    fn decision(&self, snapshot: &A::Snapshot) -> Decision {
        self.0.decision(snapshot)
    }

    #[inline]
    fn delay(&self, snapshot: &A::Snapshot) -> Duration {
        self.0.delay(snapshot)
    }

    fn withdraw(&self, state: &mut A::State, admission: &A::Snapshot, cost: u32, now: Timestamp) {
        self.0.withdraw(state, admission, one(cost), now);
    }

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.0.policy_id()
    }
}

impl<A: Scripted> Scripted for PerRequest<A> {
    fn script() -> Script {
        A::script().with(|member| member.per_request = true)
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        self.0.parameters(tell);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<A::State> {
        self.0.state(at, numbers)
    }

    fn numbers(&self, state: &A::State, at: Timestamp, tell: &mut dyn FnMut(u64)) {
        self.0.numbers(state, at, tell);
    }

    fn admission(&self, admission: &A::Snapshot, tell: &mut dyn FnMut(u64)) {
        self.0.admission(admission, tell);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<A::Snapshot> {
        self.0.read(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Quota,
        algorithm::{FixedWindow, LeakyBucket},
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn left<A: Algorithm>(rule: &A, state: &A::State) -> u64 {
        let snapshot = rule.look(state, 0, NOW).1;
        rule.decision(&snapshot).remaining()
    }

    #[test]
    fn a_debit_of_many_units_is_one_request() {
        let rule = FixedWindow::new(Quota::per_day(9)).per_request();
        let mut state = rule.fresh(NOW);
        for (units, remaining) in [(1, 8), (70, 7), (u64::MAX, 6)] {
            rule.debit(&mut state, units, NOW);
            assert_eq!(left(&rule, &state), remaining);
        }
    }

    #[test]
    fn a_request_waits_for_those_before_it_and_tells_its_turn_whatever_they_cost() {
        let plain = LeakyBucket::new(Quota::per_second(10)).queue();
        let rule = plain.clone().per_request();
        let (mut state, mut ones) = (rule.fresh(NOW), plain.fresh(NOW));
        for waits_millis in [0, 100, 200] {
            let (_, admission) = rule.step(&mut state, 5, NOW);
            let (_, one) = plain.step(&mut ones, 1, NOW);
            assert_eq!(rule.delay(&admission), Duration::from_millis(waits_millis));
            let (mut told, mut told_of_one) = (Vec::new(), Vec::new());
            rule.admission(&admission, &mut |number| told.push(number));
            plain.admission(&one, &mut |number| told_of_one.push(number));
            assert_eq!(told, told_of_one);
            assert_eq!(told.len(), 2);
        }
    }

    #[test]
    fn one_request_is_held_and_settled_whatever_it_costs() {
        let rule = PerRequest::new(FixedWindow::new(Quota::per_day(9)).settled());
        let mut state = rule.fresh(NOW);
        for (spent, remaining) in [(0, 9), (3, 8), (70, 7)] {
            let (admitted, hold) = rule.step(&mut state, 5, NOW);
            assert!(admitted && rule.holds(&state, &hold));
            assert_eq!(left(&rule, &state), remaining - u64::from(spent == 0));
            rule.settle(&mut state, &hold, (5, spent), NOW);
            assert!(!rule.holds(&state, &hold));
            assert_eq!(left(&rule, &state), remaining);
        }
    }
}
