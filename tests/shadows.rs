//! A limit in shadow has the state of that limit alone, asked about exactly the requests that the
//! enforced ones admit; and nobody who calls sees it.

use std::{convert::Infallible, time::Duration};

use crate::ready::ready;
use crate::seen::Seen;
use crate::steps::{START, steps};
use http::{Request, Response};
use tollgate::{
    EachOf, PolicyDecision, Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::*,
    clock::ManualClock,
    key::Global,
    store::{Ask, LocalStore, Store},
};
use tollgate_algorithms::for_every_algorithm;
use tower::{Layer, Service};

const STEPS: usize = 600;

/// The enforced limit. It refuses about as often as those in shadow would.
fn gate() -> impl KeyLimit {
    let gate = TokenBucket::new(Quota::per_second(12)).burst(9);
    gate.named("gate")
}

/// The status of each limit in shadow, and whether it would have refused.
fn shadows_of<L: Limit>(limits: &L, snapshot: &L::Snapshot) -> Vec<(PolicyDecision, bool)> {
    let mut all = Vec::new();
    limits.shadows_of(snapshot, &mut |policy, would_refuse| {
        all.push((policy, would_refuse));
    });
    all
}

/// Calls a test's own `holds` with each of the algorithms.
macro_rules! for_each {
    () => {
        let quota = Quota::per_second(2);
        let (burst, precision) = (5, Duration::from_millis(100));
        let interval = Duration::from_millis(400);
        for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
            holds(name, &rule, rule.clone().shadow())
        });
    };
}

/// In every number of the state, and in all that is told; debits, refunds and a clock that steps
/// back included. And the enforced limit decides as if it were alone.
#[test]
fn beside_an_enforced_limit_it_stands_as_it_does_alone() {
    fn numbers<A: Scripted>(rule: &A, state: &A::State, now: Timestamp) -> Vec<u64> {
        let mut numbers = Vec::new();
        rule.numbers(state, now, &mut |number| numbers.push(number));
        numbers
    }
    fn told<A: KeyLimit>(limit: &A, snapshot: &A::Snapshot) -> PolicyDecision {
        limit.decision_of(snapshot).policies()[0].clone()
    }
    fn holds<A: Scripted>(name: &str, alone: &A, shadow: A) {
        let limits = (shadow.clone(), gate(), shadow);
        let mut now = START;
        let (mut states, mut state) = (limits.fresh(now), alone.fresh(now));
        let mut gate_state = gate().fresh(now);
        let (mut refused, mut would_refuse) = (0, 0);
        for (step, (passes, cost)) in steps(STEPS).enumerate() {
            now = match step % 40 {
                17 => Timestamp::from_micros(now.as_micros() - 3_000_000),
                _ => now.saturating_add(Duration::from_micros(passes)),
            };
            match step % 9 {
                4 if cost > 0 => {
                    limits.debit(&mut states, cost.into(), now);
                    gate().debit(&mut gate_state, cost.into(), now);
                    alone.debit(&mut state, cost.into(), now);
                }
                7 => {
                    limits.refund(&mut states, cost, now);
                    gate().refund(&mut gate_state, cost, now);
                    alone.refund(&mut state, cost, now);
                }
                _ => {
                    let (admitted, snapshot) = limits.step(&mut states, cost, now);
                    let by_gate = gate().step(&mut gate_state, cost, now);
                    let decision = gate().decision_of(&by_gate.1);
                    assert_eq!(limits.decision_of(&snapshot), decision, "{name}");
                    let look = |state| told(alone, &alone.snapshot(state, 0, true, now));
                    let expected = match admitted.then(|| alone.step(&mut state, cost, now)) {
                        Some((true, snapshot)) => (told(alone, &snapshot), false),
                        Some((false, _)) => (look(&state), true),
                        None => (look(&state), false),
                    };
                    refused += usize::from(!admitted);
                    would_refuse += usize::from(expected.1);
                    let [first, second] = [expected.clone(), expected];
                    assert_eq!(shadows_of(&limits, &snapshot), [first, second], "{name}");
                }
            }
            let expected = numbers(alone, &state, now);
            assert_eq!(numbers(&limits.0, &states.0, now), expected, "{name}");
            assert_eq!(numbers(&limits.2, &states.2, now), expected, "{name}");
        }
        let several = STEPS / 50..STEPS;
        assert!(several.contains(&refused), "{name}: {refused}");
        assert!(several.contains(&would_refuse), "{name}: {would_refuse}");
    }
    for_each!();
}

#[test]
fn with_a_key_of_its_own_it_stands_as_it_does_alone() {
    fn holds<A: KeyLimit>(name: &str, algorithm: &A, shadow: A) {
        let clock = ManualClock::at(START);
        let limits = EachOf((gate(), shadow));
        let both = LocalStore::builder().clock(clock.clone()).build();
        let alone = LocalStore::builder().clock(clock.clone()).build();
        let alone = RateLimiter::new(algorithm.clone(), alone);
        for (step, (passes, cost)) in (0_u32..).zip(steps(STEPS)) {
            clock.advance(Duration::from_micros(passes));
            let key = step % 2;
            let keys = EachOf((Some(step % 3), Some(key)));
            let asked = |ask| ready(both.decide(&limits, &keys, ask).wait()).unwrap();
            if asked(Ask::Charge(cost)).admitted {
                alone.check_cost(&key, cost).now();
            }
            let looked = alone.check_cost(&key, 0).now();
            let expected = (looked.policies()[0].clone(), false);
            let stands = asked(Ask::Look(0)).snapshot;
            assert_eq!(shadows_of(&limits, &stands), [expected], "{name}");
        }
    }
    for_each!();
}

fn a_day(units: u64, name: &str) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units)).named(name)
}

async fn answer(_: Request<()>) -> Result<Response<String>, Infallible> {
    Ok(Response::default())
}

#[test]
fn no_field_tells_of_it_and_nobody_is_refused_or_delayed_by_it() {
    let queue = LeakyBucket::new(Quota::per_hour(1)).queue().shadow();
    let limits = (a_day(5, "five"), a_day(1, "one").shadow(), queue);
    let limit = RateLimitLayer::new(limits, LocalStore::new(), Global);
    let mut service = limit.layer(tower::service_fn(answer));
    for left in [4, 3, 2, 1, 0] {
        let response = ready(service.call(Request::new(()))).unwrap();
        assert_eq!(response.status(), 200);
        let field = response.headers()["ratelimit"].to_str().unwrap();
        assert!(field.starts_with(&format!("\"five\";r={left}")), "{field}");
        let policies = response.headers()["ratelimit-policy"].to_str().unwrap();
        assert!(!policies.contains(','), "{policies}");
    }
    assert_eq!(ready(service.call(Request::new(()))).unwrap().status(), 429);
}

#[test]
fn where_all_limits_are_in_shadow_there_is_no_policy_and_no_field() {
    let limit = RateLimitLayer::new(a_day(1, "one").shadow(), LocalStore::new(), Global);
    let limiter = limit.limiter().clone();
    let mut service = limit.layer(tower::service_fn(answer));
    for _ in 0..3 {
        let response = ready(service.call(Request::new(()))).unwrap();
        assert!(response.headers().is_empty());
        let decision = ready(limiter.peek(&())).unwrap();
        assert!(decision.is_admitted() && decision.policies().is_empty());
        assert_eq!(decision.remaining(), u64::MAX);
        assert_eq!(decision.policy(), "none");
    }
}

#[test]
fn what_it_would_refuse_holds_nothing_of_it_and_is_charged_nothing_when_it_is_settled() {
    let tried = a_day(3, "three").settled().shadow();
    let limits = (a_day(9, "nine").settled(), tried);
    let store = LocalStore::<_, String>::new();
    let limiter = RateLimiter::new(limits.clone(), store.clone());
    let hold = |cost| ready(limiter.hold("bob", cost)).unwrap().unwrap();
    let left = || {
        let verdict = ready(store.decide(&limits, "bob", Ask::Look(0)).wait()).unwrap();
        let enforced = limits.decision_of(&verdict.snapshot);
        let shadows = shadows_of(&limits, &verdict.snapshot);
        (enforced.remaining(), shadows[0].0.remaining())
    };
    let (first, second) = (hold(2), hold(2));
    assert_eq!(left(), (5, 1));
    drop(second.settle(4));
    assert_eq!(left(), (3, 1));
    drop(first.settle(1));
    assert_eq!(left(), (4, 2));
    drop(hold(2).settle(1));
    assert_eq!(left(), (3, 1));
}

/// Nothing that a limit in shadow is given makes it refuse anybody.
#[test]
fn one_that_is_set_up_wrongly_refuses_nobody_and_is_told_each_time() {
    fn refuses_nobody<A: Algorithm>(shadow: A, cost: u32) {
        let seen = Seen::default();
        let limits = (a_day(100, "enforced"), shadow);
        let limiter = RateLimiter::new(limits, LocalStore::new()).observe(seen.clone());
        for _ in 0..5 {
            let decision = limiter.check_cost("bob", cost).now();
            assert!(decision.is_admitted() && !decision.never_fits());
            assert_eq!(decision.policies().len(), 1);
        }
        let told = seen.taken();
        assert_eq!(told.len(), 5);
        for line in told {
            assert!(line.starts_with("admitted "), "{line}");
            assert!(line.contains(", shadow would refuse "), "{line}");
        }
    }
    let a_minute = Quota::per_minute(9);
    let bucket = || TokenBucket::new(a_minute).named("shadow");
    refuses_nobody(a_day(0, "shadow").shadow(), 1);
    refuses_nobody(bucket().burst(0).shadow(), 1);
    refuses_nobody(Gcra::new(Quota::per_day(0)).named("shadow").shadow(), 1);
    let no_room = LeakyBucket::new(a_minute).capacity(0);
    refuses_nobody(no_room.clone().named("shadow").shadow(), 1);
    refuses_nobody(no_room.queue().named("shadow").shadow(), 1);
    // A cost that it could never let through.
    refuses_nobody(SlidingLog::new(a_minute).named("shadow").shadow(), 10);
    refuses_nobody(bucket().wait_at_most(Duration::from_secs(1)).shadow(), 20);
}
