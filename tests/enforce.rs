//! A limit that is not enforced decides and counts as an enforced one, and no caller notices it.

use std::{
    convert::Infallible,
    future::{Ready, ready as ready_future},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::ready::ready;
use crate::steps::{START, steps};
use crate::stores::over_every_store;
use http::{Request, Response};
use tollgate::{
    Decision, Hold, Quota, RateLimitLayer, RateLimiter,
    algorithm::*,
    clock::ManualClock,
    key::{Global, Header, HeaderKey, percentile},
    store::{LocalBuckets, LocalStore, Store},
};
use tollgate_algorithms::for_every_algorithm;
use tower::{Layer, Service, ServiceExt};

fn costing(cost: u32) -> Request<u32> {
    Request::builder().body(cost).unwrap()
}

/// Answers with the cost, the decision and the hold of its request.
fn inner(request: Request<u32>) -> Ready<Result<Response<String>, Infallible>> {
    let mut response = Response::new(request.body().to_string());
    let found = request.extensions();
    if let Some(decision) = found.get::<Decision>() {
        response.extensions_mut().insert(decision.clone());
    }
    if let Some(hold) = found.get::<Hold>() {
        response.extensions_mut().insert(hold.clone());
    }
    ready_future(Ok(response))
}

/// A limit that is not enforced decides as the same limit without a layer, and every request goes
/// on at once and gets a response without rate-limit fields.
async fn decides_as_if_it_were_enforced<A, Plain, S>(
    name: &str,
    algorithm: A,
    (plain, store): (Plain, S),
    clock: &ManualClock,
    count: usize,
) where
    A: Algorithm,
    Plain: Store<A, ()>,
    S: Store<A, (), Deciding: Send>,
{
    let plain = RateLimiter::new(algorithm.clone(), plain);
    let mut unenforced = RateLimitLayer::new(algorithm, store, Global)
        .cost(|request: &Request<u32>| *request.body())
        .expose_decision()
        .max_waiting(0)
        .enforce(false)
        .layer(tower::service_fn(inner));
    // Time stands still but for who sleeps.
    let (mut refused, begun) = (0, tokio::time::Instant::now());
    for (passes, cost) in steps(count) {
        clock.advance(Duration::from_micros(passes));
        let told = plain.check_cost(&(), cost).await.unwrap();
        let ready = unenforced.ready().await.unwrap();
        let response = ready.call(costing(cost)).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "{name}");
        assert_eq!(*response.body(), cost.to_string(), "{name}");
        assert_eq!(response.extensions().get(), Some(&told), "{name}");
        assert!(response.headers().is_empty(), "{name}");
        refused += usize::from(!told.is_admitted());
    }
    let several = count / 12..count - count / 12;
    assert!(several.contains(&refused), "{name}: {refused} of {count}");
}

#[tokio::test(start_paused = true)]
async fn every_algorithm_decides_as_if_it_were_enforced_and_no_caller_notices() {
    fn local<L: LocalBuckets<()>>(clock: &ManualClock) -> LocalStore<L, (), ManualClock> {
        LocalStore::builder().clock(clock.clone()).build()
    }
    let quota = Quota::per_second(3);
    let (burst, precision) = (5, Duration::from_millis(100));
    let interval = Duration::from_millis(400);
    for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
        let clock = ManualClock::at(START);
        over_every_store!(local(&clock), |store| {
            let stores = (local(&clock), store);
            decides_as_if_it_were_enforced(name, rule.clone(), stores, &clock, 400).await
        });
    });
}

fn two() -> FixedWindow {
    FixedWindow::new(Quota::per_day(2)).named("two")
}

#[test]
fn what_a_closure_reads_is_read_once_for_each_request_and_changes_at_once() {
    let (is_on, asked) = (
        Arc::new(AtomicBool::default()),
        Arc::new(AtomicU32::default()),
    );
    let (read, count) = (Arc::clone(&is_on), Arc::clone(&asked));
    let mut service = RateLimitLayer::new(two(), LocalStore::new(), Global)
        .enforce(move |_: &Request<u32>, key: Option<&()>| {
            assert!(key.is_some());
            count.fetch_add(1, Ordering::Relaxed);
            read.load(Ordering::Relaxed)
        })
        .layer(tower::service_fn(inner));
    for enforced in [false, false, false, true, false] {
        is_on.store(enforced, Ordering::Relaxed);
        let response = ready(service.call(costing(1))).unwrap();
        assert_eq!(response.status() == 429, enforced);
        assert_eq!(!response.headers().is_empty(), enforced);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 5);
}

#[test]
fn a_share_of_the_callers_is_enforced_and_a_larger_share_has_them_too() {
    let refused = |percent: f64| {
        let none = FixedWindow::new(Quota::per_day(0));
        let mut service = RateLimitLayer::new(none, LocalStore::new(), Header::new("x-account"))
            .enforce(move |_: &Request<u32>, key: Option<&HeaderKey>| {
                key.is_some_and(|key| percentile(key) < percent)
            })
            .layer(tower::service_fn(inner));
        let mut refused = |account: &u32| {
            let request = Request::builder().header("x-account", *account);
            let response = ready(service.call(request.body(1).unwrap())).unwrap();
            response.status() == 429
        };
        Vec::from_iter((0..500).filter(|account| refused(account)))
    };
    let [none, few, more, all] = [0.0, 10.0, 40.0, 100.0].map(refused);
    assert_eq!((none.len(), all.len()), (0, 500));
    assert!((25..80).contains(&few.len()), "{few:?}");
    assert!((150..250).contains(&more.len()), "{more:?}");
    assert!(few.iter().all(|account| more.contains(account)));
}

#[test]
fn a_request_that_would_be_refused_has_no_hold_and_its_end_frees_nothing_of_others() {
    let settled = FixedWindow::new(Quota::per_day(3)).settled();
    let limit = RateLimitLayer::new(settled, LocalStore::new(), Global)
        .cost(2)
        .enforce(false);
    let limiter = limit.limiter().clone();
    let mut service = limit.layer(tower::service_fn(inner));
    let mut answers = [0; 3].map(|_| ready(service.call(costing(1))).unwrap());
    let holds = answers
        .each_mut()
        .map(|answer| answer.extensions_mut().remove::<Hold>());
    let [Some(hold), None, None] = holds else {
        panic!("{holds:?}")
    };
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 1);
    drop(hold.settle(0));
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 3);

    let limit = RateLimitLayer::new(InFlight::new(1), LocalStore::new(), Global).enforce(false);
    let limiter = limit.limiter().clone();
    let mut service = limit.layer(tower::service_fn(inner));
    let first = ready(service.call(costing(1))).unwrap();
    let second = ready(service.call(costing(1))).unwrap();
    drop(second);
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 0);
    drop(first);
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 1);
}
