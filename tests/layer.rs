//! The layer around a service that is not HTTP at all: readiness, order, sharing, waiting and
//! failing.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tollgate::{
    LocalRateLimit, LocalRateLimitLayer, OnStoreError, Quota, RateLimitLayer, RateLimiter,
    StoreError, StoreErrorKind, Timestamp,
    algorithm::{FixedWindow, Gcra},
    clock::ManualClock,
    key::{Global, from_fn},
    response::{AsError, Refused},
    store::{LocalStore, Store},
};
use tower::{
    BoxError, Layer, Service, ServiceExt,
    limit::ConcurrencyLimit,
    util::{ServiceFn, future_service},
};

use crate::seen::panics;
use crate::stores::over_every_store;
use crate::support::{Echo, Remote, broken, by_hand, daily, numbers};

fn two_a_day() -> FixedWindow {
    daily(2).named("two-a-day")
}

/// What never becomes a service.
type Never = ServiceFn<fn(u32) -> Ready<Result<u32, &'static str>>>;

fn was_refused<T: std::fmt::Debug>(answer: Result<T, BoxError>) -> bool {
    answer.is_err_and(|error| matches!(error.downcast_ref(), Some(Refused::Limited(_))))
}

async fn a_refused_request_never_reaches_the_inner_service<S>(store: S)
where
    S: Store<FixedWindow, (), Deciding: Send> + Send + Sync + 'static,
{
    let echo = Echo::default();
    let calls = Arc::clone(&echo.calls);
    let mut service = numbers(two_a_day(), store).layer(echo);
    for number in [7, 8] {
        let answer = service.ready().await.unwrap().call(number).await;
        assert_eq!(answer.unwrap(), number);
    }
    let error = service.ready().await.unwrap().call(9).await.unwrap_err();
    let refusal = error.downcast::<Refused>().unwrap();
    let decision = refusal.decision().unwrap();
    assert_eq!(decision.policy(), "two-a-day");
    assert!(!decision.is_admitted());
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn whatever_the_store_a_refused_request_never_reaches_the_inner_service() {
    over_every_store!(by_hand().1, |store| {
        a_refused_request_never_reaches_the_inner_service(store).await
    });
}

#[tokio::test]
async fn waiting_for_readiness_charges_nothing() {
    let (_clock, store) = by_hand();
    let mut service = numbers(two_a_day(), store.clone()).layer(Echo::pending_for(5));
    service.ready().await.unwrap();
    service.ready().await.unwrap();
    let limiter = RateLimiter::new(two_a_day(), store);
    assert_eq!(limiter.peek(&()).await.unwrap().remaining(), 2);
    service.call(1).await.unwrap();
    assert_eq!(limiter.peek(&()).await.unwrap().remaining(), 1);
}

#[tokio::test]
async fn an_inner_service_that_is_never_ready_fails_before_anything_is_charged() {
    let (_clock, store) = by_hand();
    let down = future_service(ready(Err::<Never, _>("down")));
    let mut service = numbers(two_a_day(), store.clone()).layer(down);
    let error = service.ready().await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "down");
    let limiter = RateLimiter::new(two_a_day(), store);
    assert_eq!(limiter.peek(&()).await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn clones_of_a_layer_and_of_its_services_share_one_budget() {
    let layer = numbers(two_a_day(), by_hand().1);
    let one = layer.clone().layer(Echo::default());
    let other = layer.layer(Echo::default());
    assert!(one.clone().oneshot(1).await.is_ok());
    assert!(other.clone().oneshot(1).await.is_ok());
    for service in [one.clone(), one, other] {
        assert!(was_refused(service.oneshot(1).await));
    }
}

#[tokio::test]
async fn a_key_extractor_that_panics_leaves_the_limiter_as_it_was() {
    let key = from_fn(|number: &u32| {
        assert!(*number < 100, "no key for this");
        Ok::<_, Infallible>(Some(()))
    });
    let service = RateLimitLayer::new(two_a_day(), by_hand().1, key)
        .respond_with(AsError)
        .layer(Echo::default());
    assert!(panics(|| service.clone().call(100)));
    assert!(service.clone().oneshot(1).await.is_ok());
    assert!(service.clone().oneshot(1).await.is_ok());
    assert!(was_refused(service.oneshot(1).await));
}

#[tokio::test]
async fn the_readied_service_is_the_one_that_is_called_however_late_the_store_decides() {
    // `Echo` panics when a service is called that was not made ready; its clones are not.
    let mut service = numbers(two_a_day(), Remote(by_hand().1)).layer(Echo::default());
    let first = service.ready().await.unwrap().call(1);
    let second = service.ready().await.unwrap().call(2);
    assert_eq!(second.await.unwrap(), 2);
    assert_eq!(first.await.unwrap(), 1);
}

#[tokio::test]
async fn a_future_that_is_dropped_while_the_store_decides_leaves_nothing_behind() {
    let inner = ConcurrencyLimit::new(Echo::default(), 1);
    let mut service = numbers(two_a_day(), Remote(by_hand().1)).layer(inner);
    drop(service.ready().await.unwrap().call(1));
    let next = tokio::time::timeout(Duration::from_secs(5), service.ready()).await;
    let response = next.expect("the permit is back").unwrap().call(2).await;
    assert_eq!(response.unwrap(), 2);
}

#[tokio::test]
async fn a_closure_may_choose_by_the_error_of_the_store_and_is_asked_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let layer = numbers(two_a_day(), broken(StoreErrorKind::Unavailable)).on_store_error(
        move |error: &StoreError| {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            count.fetch_add(1, Ordering::SeqCst);
            OnStoreError::Admit
        },
    );
    assert!(layer.layer(Echo::default()).oneshot(1).await.is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn public_types_can_be_written_down_and_are_send_sync_and_clone() {
    fn check<T: Send + Sync + Clone>(_: &T) {}
    fn check_future<T: Send>(_: T) {}
    let gcra = Gcra::new(Quota::per_second(5));
    let layer: LocalRateLimitLayer<Gcra, (), Global, AsError> =
        RateLimitLayer::new(gcra, LocalStore::new(), Global).respond_with(AsError);
    let mut service: LocalRateLimit<Echo, Gcra, (), Global, AsError> = layer.layer(Echo::default());
    check(&layer);
    check(&service);
    check(layer.limiter());
    check(&layer.limiter().peek(&()).now());
    check(&ManualClock::at(Timestamp::from_micros(0)));
    check_future(service.ready());
    check_future(layer.limiter().check(&()));
}

#[tokio::test]
async fn a_refusal_lets_go_of_what_the_inner_service_had_reserved() {
    let inner = ConcurrencyLimit::new(Echo::default(), 1);
    let mut one = numbers(daily(0), by_hand().1).layer(inner);
    let mut other = one.clone();
    assert!(was_refused(one.ready().await.unwrap().call(1).await));
    let ready = tokio::time::timeout(Duration::from_secs(5), other.ready()).await;
    assert!(ready.expect("the permit is back").is_ok());
}
