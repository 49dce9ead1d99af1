//! The layer around a service that is not HTTP at all: readiness, order, sharing, waiting and
//! failing.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tollgate::{
    Decision, LocalRateLimit, LocalRateLimitLayer, OnStoreError, Options, Quota, RateLimitLayer,
    RateLimiter, StoreError, StoreErrorKind,
    algorithm::{FixedWindow, Gcra, TokenBucket},
    clock::ManualClock,
    key::{Global, from_fn},
    response::{AsError, RateLimited, Refusal, Respond, StoreFailed},
    store::{LocalStore, Store},
};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

use crate::stores::over_every_store;
use crate::support::{Broken, Echo, Remote, by_hand};

type NumberLayer<A, S> = RateLimitLayer<A, S, Global, Options<u32, AsError>>;

fn numbers<A, S>(algorithm: A, store: S) -> NumberLayer<A, S> {
    RateLimitLayer::new(algorithm, store, Global).respond_with(AsError)
}

fn two_a_day() -> FixedWindow {
    FixedWindow::new(Quota::per_day(2)).named("two-a-day")
}

fn was_refused<T: std::fmt::Debug>(answer: Result<T, BoxError>) -> bool {
    answer.is_err_and(|error| error.is::<RateLimited>())
}

async fn a_refused_request_never_reaches_the_inner_service<S>(store: S)
where
    S: Store<FixedWindow, (), Deciding: Send> + Send + Sync + 'static,
{
    let echo = Echo::default();
    let calls = Arc::clone(&echo.calls);
    let mut service = numbers(two_a_day(), store).layer(echo);
    for number in [7, 8] {
        assert_eq!(
            service.ready().await.unwrap().call(number).await.unwrap(),
            number
        );
    }
    let error = service.ready().await.unwrap().call(9).await.unwrap_err();
    let refusal = error.downcast::<RateLimited>().unwrap();
    assert_eq!(refusal.decision().policy(), "two-a-day");
    assert!(!refusal.decision().is_admitted());
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
    let inner = tower::service_fn(|_: u32| async { Ok::<u32, BoxError>(1) });
    let inner = ServiceBuilder::new()
        .map_err(|_: BoxError| BoxError::from("down"))
        .service(tower::util::MapRequest::new(
            Failing(inner),
            |number: u32| number,
        ));
    let mut service = numbers(two_a_day(), store.clone()).layer(inner);
    let error = service.ready().await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "down");
    let limiter = RateLimiter::new(two_a_day(), store);
    assert_eq!(limiter.peek(&()).await.unwrap().remaining(), 2);
}

#[derive(Clone)]
struct Failing<S>(S);

impl<S: Service<u32, Error = BoxError>> Service<u32> for Failing<S> {
    type Response = S::Response;
    type Error = BoxError;
    type Future = S::Future;

    fn poll_ready(
        &mut self,
        _cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Err("broken".into()))
    }

    fn call(&mut self, request: u32) -> S::Future {
        self.0.call(request)
    }
}

#[tokio::test]
async fn clones_of_a_layer_and_of_its_services_share_one_budget() {
    let (_clock, store) = by_hand();
    let layer = numbers(two_a_day(), store);
    let one = layer.clone().layer(Echo::default());
    let other = layer.layer(Echo::default());
    assert!(one.clone().oneshot(1).await.is_ok());
    assert!(other.clone().oneshot(1).await.is_ok());
    for service in [one.clone(), one, other] {
        assert!(was_refused(service.oneshot(1).await));
    }
}

#[tokio::test]
async fn two_routes_share_one_quota_with_different_weights() {
    let (_clock, store) = by_hand();
    let limit = numbers(FixedWindow::new(Quota::per_day(6)), store);
    let light = limit.clone().layer(Echo::default());
    let heavy = limit.cost(5_u32).layer(Echo::default());
    assert!(heavy.clone().oneshot(1).await.is_ok());
    assert!(was_refused(heavy.oneshot(1).await));
    assert!(light.clone().oneshot(1).await.is_ok());
    assert!(was_refused(light.oneshot(1).await));
}

#[tokio::test]
async fn a_closure_may_look_at_the_request_for_its_cost_key_and_exemption() {
    let (_clock, store) = by_hand();
    let parity = from_fn(|number: &u32| Ok::<_, Infallible>(Some(number % 2)));
    let service = RateLimitLayer::new(FixedWindow::new(Quota::per_day(10)), store.clone(), parity)
        .respond_with(AsError)
        .cost(|number: &u32| *number)
        .exempt(|number: &u32| *number > 100)
        .layer(Echo::default());
    for number in [8, 1_000, 9, 1_001] {
        assert!(service.clone().oneshot(number).await.is_ok(), "{number}");
    }
    assert!(was_refused(service.clone().oneshot(4).await));
    assert!(was_refused(service.clone().oneshot(3).await));
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(10)), store);
    assert_eq!(limiter.peek(&0).await.unwrap().remaining(), 2);
    assert_eq!(limiter.peek(&1).await.unwrap().remaining(), 1);
}

#[tokio::test]
async fn a_request_to_which_no_limit_applies_passes() {
    let none = from_fn(|_: &u32| Ok::<Option<u32>, Infallible>(None));
    let service = RateLimitLayer::new(FixedWindow::new(Quota::per_day(0)), by_hand().1, none)
        .respond_with(AsError)
        .layer(Echo::default());
    assert!(service.oneshot(1).await.is_ok());
}

#[tokio::test]
async fn an_outer_layer_stays_charged_when_an_inner_one_refuses() {
    let (_clock, store) = by_hand();
    let outer = numbers(
        FixedWindow::new(Quota::per_day(10)).named("outer"),
        store.clone(),
    );
    let inner = numbers(two_a_day(), store.clone());
    let service = outer.layer(inner.layer(Echo::default()));
    for _ in 0..5 {
        let _ = service.clone().oneshot(1).await;
    }
    let left = |algorithm| {
        let limiter = RateLimiter::new(algorithm, store.clone());
        async move { limiter.peek(&()).await.unwrap().remaining() }
    };
    assert_eq!(
        left(FixedWindow::new(Quota::per_day(10)).named("outer")).await,
        5
    );
    assert_eq!(left(two_a_day()).await, 0);
}

#[tokio::test]
async fn a_key_extractor_that_panics_leaves_the_limiter_as_it_was() {
    let (_clock, store) = by_hand();
    let key = from_fn(|number: &u32| {
        assert!(*number < 100, "no key for this");
        Ok::<_, Infallible>(Some(()))
    });
    let service = RateLimitLayer::new(two_a_day(), store, key)
        .respond_with(AsError)
        .layer(Echo::default());
    let mut panics = service.clone();
    let call = AssertUnwindSafe(|| drop(panics.call(100)));
    assert!(std::panic::catch_unwind(call).is_err());
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
    let (_clock, store) = by_hand();
    let inner = ServiceBuilder::new()
        .concurrency_limit(1)
        .service(Echo::default());
    let mut service = numbers(two_a_day(), Remote(store)).layer(inner);
    drop(service.ready().await.unwrap().call(1));
    let next = tokio::time::timeout(Duration::from_secs(5), service.ready()).await;
    let response = next.expect("the permit is back").unwrap().call(2).await;
    assert_eq!(response.unwrap(), 2);
}

async fn broken(kind: StoreErrorKind, choice: OnStoreError) -> Result<u32, BoxError> {
    let layer = numbers(two_a_day(), Broken(kind)).on_store_error(choice);
    layer.layer(Echo::default()).oneshot(1).await
}

#[tokio::test]
async fn an_unavailable_store_is_answered_as_the_user_chose() {
    let refused = broken(StoreErrorKind::Unavailable, OnStoreError::Refuse).await;
    assert!(refused.unwrap_err().is::<StoreFailed>());
    assert!(
        broken(StoreErrorKind::Unavailable, OnStoreError::Admit)
            .await
            .is_ok()
    );

    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let layer = numbers(two_a_day(), Broken(StoreErrorKind::Unavailable)).on_store_error(
        move |error: &StoreError| {
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            count.fetch_add(1, Ordering::SeqCst);
            OnStoreError::Admit
        },
    );
    assert!(layer.layer(Echo::default()).oneshot(1).await.is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn nobody_is_let_through_because_of_what_he_sent_or_of_a_wrong_set_up() {
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::InvalidInput] {
        let answer = broken(kind, OnStoreError::Admit).await;
        assert!(answer.unwrap_err().is::<StoreFailed>(), "{kind:?}");
    }
}

/// The types can be written down.
struct Limited {
    layer: LocalRateLimitLayer<Gcra, (), Global, Options<u32, AsError>>,
    service: LocalRateLimit<Echo, Gcra, (), Global, Options<u32, AsError>>,
}

fn limited() -> Limited {
    let gcra = Gcra::new(Quota::per_second(5));
    let layer = RateLimitLayer::new(gcra, LocalStore::new(), Global).respond_with(AsError);
    let service = layer.layer(Echo::default());
    Limited { layer, service }
}

#[tokio::test]
async fn a_user_can_write_down_the_types_of_the_layer_and_of_the_service() {
    let Limited { layer, service } = limited();
    assert!(service.oneshot(1).await.is_ok());
    assert!(layer.layer(Echo::default()).oneshot(1).await.is_ok());
}

#[test]
fn public_types_are_send_sync_and_clone() {
    fn check<T: Send + Sync + Clone>() {}
    fn check_future<T: Send>(_: &T) {}
    check::<LocalRateLimitLayer<Gcra, String, Global>>();
    check::<LocalRateLimit<Echo, (Gcra, FixedWindow), String, Global>>();
    check::<RateLimiter<TokenBucket, LocalStore<TokenBucket, u64>>>();
    check::<tollgate::Decision>();
    check::<ManualClock>();
    let mut service = limited().service;
    let ready = service.ready();
    check_future(&ready);
}

#[tokio::test]
async fn a_refusal_lets_go_of_what_the_inner_service_had_reserved() {
    let (_clock, store) = by_hand();
    let none = FixedWindow::new(Quota::per_day(0));
    let inner = ServiceBuilder::new()
        .concurrency_limit(1)
        .service(Echo::default());
    let mut one = numbers(none, store).layer(inner);
    let mut other = one.clone();
    assert!(was_refused(one.ready().await.unwrap().call(1).await));
    let ready = tokio::time::timeout(Duration::from_secs(5), other.ready()).await;
    assert!(ready.expect("the permit is back").is_ok());
}

/// Answers with numbers, and adds nothing to any.
#[derive(Clone)]
struct Terse;

impl Respond<u32, u32, Infallible> for Terse {
    type Error = Infallible;

    fn answer(&self, _: &u32, _: Refusal<'_>) -> Result<u32, Infallible> {
        Ok(429)
    }

    fn inner_error(error: Infallible) -> Infallible {
        error
    }

    fn annotate(&self, _: &Decision, _: &mut u32) {
        unreachable!("it has not said that it adds anything");
    }
}

#[tokio::test]
async fn a_responder_that_does_not_say_so_is_not_asked_to_add_anything() {
    let (_clock, store) = by_hand();
    let limit = RateLimitLayer::new(two_a_day(), store, Global).respond_with(Terse);
    let service = limit.layer(Echo::default());
    for answer in [7, 7, 429] {
        assert_eq!(service.clone().oneshot(7).await, Ok(answer));
    }
}
