//! A limit in shadow has the state of that limit alone, asked about exactly the requests that the
//! enforced ones admit; and nobody who calls sees it.

#[path = "support/algorithms.rs"]
mod algorithms;
#[path = "support/ready.rs"]
mod ready;
#[path = "support/shadows.rs"]
mod shadows;

use std::{convert::Infallible, time::Duration};

use algorithms::every_algorithm;
use http::{Request, Response};
use ready::ready;
use shadows::{START, gate, shadow_of, stands_as_if_alone, stands_as_if_alone_by_its_key, steps};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::*,
    clock::ManualClock,
    key::Global,
    store::{LocalStore, Store, local::LocalBuckets},
};
use tower::{Layer, Service};

const STEPS: usize = 600;

fn store<L: LocalBuckets<K>, K>(clock: &ManualClock) -> LocalStore<L, K, ManualClock> {
    LocalStore::builder().clock(clock.clone()).build()
}

macro_rules! for_every_algorithm {
    ($case:ident) => {
        let quota = Quota::per_second(2);
        let (burst, precision) = (5, Duration::from_millis(100));
        let interval = Duration::from_millis(400);
        every_algorithm!($case, quota, burst, precision, interval);
    };
}

#[test]
fn beside_an_enforced_limit_it_stands_as_it_does_alone() {
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let stores = (store(&clock), store(&clock), store(&clock));
            ready(stands_as_if_alone($name, $made, stores, &clock, STEPS));
        )+};
    }
    for_every_algorithm!(case);
}

#[test]
fn with_a_key_of_its_own_it_stands_as_it_does_alone() {
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let stores = (store(&clock), store(&clock));
            ready(stands_as_if_alone_by_its_key($name, $made, stores, &clock, STEPS));
        )+};
    }
    for_every_algorithm!(case);
}

/// Debits, refunds and a clock that steps back included, in every number of the state.
#[test]
fn every_number_of_its_state_is_that_of_the_limit_alone() {
    fn numbers<A: Scripted>(rule: &A, state: &A::State) -> Vec<u64> {
        let mut numbers = Vec::new();
        rule.numbers(state, &mut |number| numbers.push(number));
        numbers
    }
    fn holds<A: Scripted>(name: &str, alone: &A) {
        let limits = (
            Shadow::new(alone.clone()),
            gate(),
            Shadow::new(alone.clone()),
        );
        let mut now = START;
        let (mut states, mut state) = (limits.fresh(now), alone.fresh(now));
        for (step, (passes, cost)) in steps(STEPS).enumerate() {
            now = match step % 40 {
                17 => Timestamp::from_micros(now.as_micros() - 3_000_000),
                _ => now.saturating_add(Duration::from_micros(passes)),
            };
            limits.mend(&mut states, now);
            alone.mend(&mut state, now);
            match step % 9 {
                4 if cost > 0 => {
                    limits.debit(&mut states, cost.into(), now);
                    alone.debit(&mut state, cost.into(), now);
                }
                7 => {
                    limits.refund(&mut states, cost, now);
                    alone.refund(&mut state, cost, now);
                }
                _ => {
                    if limits.step(&mut states, cost, now).0 {
                        alone.step(&mut state, cost, now);
                    }
                }
            }
            let expected = numbers(alone, &state);
            assert_eq!(numbers(&limits.0, &states.0), expected, "{name}");
            assert_eq!(numbers(&limits.2, &states.2), expected, "{name}");
        }
    }
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            holds($name, &$made);
        )+};
    }
    for_every_algorithm!(case);
}

fn a_day(units: u64, name: &str) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units)).named(name)
}

#[test]
fn no_field_tells_of_it_and_nobody_is_refused_or_delayed_by_it() {
    let queue = LeakyBucket::new(Quota::per_hour(1)).queue().shadow();
    let limits = (a_day(5, "five"), a_day(1, "one").shadow(), queue);
    let mut service =
        RateLimitLayer::new(limits, LocalStore::new(), Global).layer(tower::service_fn(
            |_: Request<()>| async { Ok::<_, Infallible>(Response::new(String::new())) },
        ));
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
    let mut service = limit.layer(tower::service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    for _ in 0..3 {
        let response = ready(service.call(Request::new(()))).unwrap();
        assert!(response.headers().is_empty());
        let decision = ready(limiter.peek(&())).unwrap();
        assert!(decision.is_admitted() && decision.policies().is_empty());
        assert_eq!(
            (decision.remaining(), decision.policy()),
            (u64::MAX, "none")
        );
    }
}

#[test]
fn what_it_would_refuse_holds_nothing_of_it_and_is_charged_nothing_when_it_is_settled() {
    let limits = (
        a_day(9, "nine").settled(),
        a_day(3, "three").settled().shadow(),
    );
    let store = LocalStore::<_, String>::new();
    let limiter = RateLimiter::new(limits.clone(), store.clone());
    let hold = |cost| ready(limiter.hold("bob", cost)).unwrap().unwrap();
    let left = || {
        let verdict = ready(store.peek(&limits, "bob", 0).wait()).unwrap();
        let (enforced, shadow) = (
            limits.decision(&verdict.snapshot),
            shadow_of(&limits, &verdict.snapshot),
        );
        (enforced.remaining(), shadow.0.remaining())
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

#[test]
fn what_it_would_refuse_takes_no_place_in_flight_of_it() {
    let limits = (InFlight::new(9), InFlight::new(1).shadow());
    let store = LocalStore::<_, String>::new();
    let limiter = RateLimiter::new(limits.clone(), store.clone());
    let hold = || ready(limiter.hold("bob", 1)).unwrap().unwrap();
    let left = || {
        let verdict = ready(store.peek(&limits, "bob", 0).wait()).unwrap();
        shadow_of(&limits, &verdict.snapshot).0.remaining()
    };
    let (first, second) = (hold(), hold());
    assert_eq!(left(), 0);
    drop(second);
    assert_eq!(left(), 0);
    drop(first);
    assert_eq!(left(), 1);
}
