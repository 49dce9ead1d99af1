//! A limiter that decides while the store is down: it says so, and was charged what the store had
//! admitted.

use std::{
    convert::Infallible,
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Request, Response};
use tollgate::{
    Decision, Hold, Quota, RateLimitLayer, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, Gcra, InFlight, TokenBucket},
    choice::by_request,
    clock::ManualClock,
    key::{Global, Header},
    options::WithFallback,
    response::{AsError, Refused},
    store::LocalStore,
};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use crate::seen::panics;
use crate::support::{Echo, Flapping, by_hand, daily};

const DOWN: StoreErrorKind = StoreErrorKind::Unavailable;

fn full(units: u64) -> FixedWindow {
    daily(units).named("full")
}

fn small(units: u64) -> FixedWindow {
    daily(units).named("small")
}

type Near = Flapping<LocalStore<FixedWindow, (), ManualClock>>;

fn near() -> Near {
    Flapping::over(by_hand().1)
}

type Numbers<E> = RateLimitLayer<FixedWindow, Near, Global, AsError, WithFallback<E>>;

fn numbers<E>(units: u64, store: &Near, on_store_error: E) -> Numbers<E> {
    crate::support::numbers(full(units), store.clone()).on_store_error(on_store_error)
}

fn refused(answer: Result<u32, BoxError>) -> Decision {
    let refusal = answer.unwrap_err().downcast::<Refused>().unwrap();
    refusal.decision().unwrap().clone()
}

#[tokio::test]
async fn what_the_store_admits_is_charged_to_the_smaller_limit_too() {
    for store in [near(), near().later()] {
        let fallback = RateLimiter::new(small(3), by_hand().1);
        let service = numbers(4, &store, fallback.clone()).layer(Echo::default());
        let left = || fallback.peek(&()).now().remaining();
        for expected in [2, 1, 0, 0] {
            service.clone().oneshot(1).await.unwrap();
            assert_eq!(left(), expected);
        }
        // Requests that the store refuses are not charged.
        fallback.reset(&()).now();
        refused(service.clone().oneshot(1).await);
        assert_eq!(left(), 3);
    }
}

#[tokio::test]
async fn a_choice_of_the_smaller_limit_that_panics_gives_the_place_in_flight_back() {
    let choice = by_request(|_: &u32| -> FixedWindow { panic!("on purpose") });
    let limit = RateLimitLayer::new(InFlight::new(2), by_hand().1, Global)
        .respond_with(AsError)
        .on_store_error(RateLimiter::new(choice, by_hand().1));
    for _ in 0..3 {
        let mut service = limit.layer(Echo::default());
        assert!(panics(|| service.call(7)));
        assert_eq!(limit.limiter().peek(&()).now().remaining(), 2);
    }
}

#[tokio::test]
async fn a_wrong_set_up_and_a_strangers_value_never_fall_back() {
    let store = near();
    let fallback = RateLimiter::new(small(2), by_hand().1);
    let service = numbers(5, &store, fallback.clone()).layer(Echo::default());
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::InvalidInput] {
        store.fails(kind);
        let error = service.clone().oneshot(1).await.unwrap_err();
        let failed = error.downcast_ref();
        assert!(matches!(failed, Some(Refused::StoreFailed(_))), "{kind:?}");
    }
    assert_eq!(fallback.peek(&()).now().remaining(), 2);
}

fn a_request() -> Request<()> {
    Request::get("/").header("x-user", "bob").body(()).unwrap()
}

#[tokio::test]
async fn handlers_and_callers_are_told_what_the_smaller_limit_says_and_no_more() {
    let over = || Flapping::over(LocalStore::new());
    for store in [over(), over().later()] {
        let fallback = RateLimiter::new(small(2), LocalStore::new());
        let limit = RateLimitLayer::new(full(2), store.clone(), Header::new("x-user"))
            .expose_decision()
            .on_store_error(fallback);
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let service = limit.layer(service_fn(move |request: Request<()>| {
            let decision = request.extensions().get::<Decision>().unwrap();
            let told = (decision.is_degraded(), decision.policy().to_owned());
            seen.lock().unwrap().push(told);
            ready(Ok::<_, Infallible>(Response::new(String::new())))
        }));
        // When the store is back, the full limit has lost nothing.
        for (failure, status, fields) in [
            (None, 200, ["\"full\";q=2;w=86400", "\"full\";r=1"]),
            (Some(DOWN), 200, ["\"small\";q=2;w=86400", "\"small\";r=0"]),
            (Some(DOWN), 429, ["\"small\";q=2;w=86400", "\"small\";r=0"]),
            (None, 200, ["\"full\";q=2;w=86400", "\"full\";r=0"]),
            (None, 429, ["\"full\";q=2;w=86400", "\"full\";r=0"]),
        ] {
            store.fails(failure);
            let response = service.clone().oneshot(a_request()).await.unwrap();
            assert_eq!(response.status(), status);
            let field = |name| response.headers()[name].to_str().unwrap();
            assert_eq!(field("ratelimit-policy"), fields[0]);
            assert!(field("ratelimit").starts_with(fields[1]));
            assert_eq!(response.headers().get_all("ratelimit").iter().count(), 1);
            if status == 429 {
                let refused = response.extensions().get::<Decision>().unwrap();
                assert_eq!(refused.is_degraded(), failure.is_some());
            }
        }
        let told = told.lock().unwrap();
        let full = (false, "full".to_owned());
        assert_eq!(*told, [full.clone(), (true, "small".to_owned()), full]);
    }
}

#[tokio::test]
async fn where_nothing_is_enforced_handlers_are_told_that_the_smaller_limit_would_refuse() {
    let store = Flapping::over(LocalStore::new());
    store.fails(DOWN);
    let limit = RateLimitLayer::new(full(5), store, Global)
        .expose_decision()
        .enforce(false)
        .on_store_error(RateLimiter::new(small(0), LocalStore::new()));
    let service = limit.layer(service_fn(|request: Request<()>| {
        let decision = request.extensions().get::<Decision>().unwrap();
        assert!(decision.is_degraded() && !decision.is_admitted());
        ready(Ok::<_, Infallible>(Response::new(String::new())))
    }));
    let response = service.oneshot(a_request()).await.unwrap();
    assert!(!response.headers().contains_key("ratelimit"));
}

#[tokio::test]
async fn a_request_that_the_smaller_limit_delays_waits_for_its_turn() {
    let store = near();
    let queue = Gcra::new(Quota::per_second(20)).burst(1);
    let queue = queue.wait_at_most(Duration::from_secs(5));
    let fallback = RateLimiter::new(queue, LocalStore::new());
    let limit = numbers(5, &store, fallback).max_waiting(1);
    let service = limit.layer(Echo::default());
    store.fails(DOWN);
    let start = Instant::now();
    service.clone().oneshot(1).await.unwrap();
    let (waits, one_too_many) =
        tokio::join!(service.clone().oneshot(2), service.clone().oneshot(3),);
    assert_eq!(waits.unwrap(), 2);
    assert!(start.elapsed() >= Duration::from_millis(49));
    assert!(refused(one_too_many).is_degraded());
}

/// The smaller limit charges at once what the full limit would hold.
#[tokio::test]
async fn a_settled_limit_falls_back_to_one_that_is_charged_whole() {
    let store = Flapping::over(LocalStore::new());
    let fallback = RateLimiter::new(small(4), LocalStore::new());
    let bucket = TokenBucket::new(Quota::per_day(10)).settled();
    let limit = RateLimitLayer::new(bucket, store.clone(), Header::new("x-user"))
        .cost(2)
        .on_store_error(fallback.clone());
    let holds = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&holds);
    let service = limit.layer(service_fn(move |request: Request<()>| {
        let hold = request.extensions().get::<Hold>();
        seen.fetch_add(usize::from(hold.is_some()), Ordering::SeqCst);
        if let Some(hold) = hold {
            drop(hold.settle(0));
        }
        ready(Ok::<_, Infallible>(Response::new(String::new())))
    }));
    service.clone().oneshot(a_request()).await.unwrap();
    assert_eq!(holds.load(Ordering::SeqCst), 1);
    store.fails(DOWN);
    for expected in [200, 429] {
        let response = service.clone().oneshot(a_request()).await.unwrap();
        assert_eq!(response.status(), expected);
    }
    assert_eq!(holds.load(Ordering::SeqCst), 1);
}
