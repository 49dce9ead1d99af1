//! Holds on units while a request runs: who settles them, when, and in which bucket.

use std::{
    convert::Infallible,
    future::ready as ready_future,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
    response::Response,
    routing::get,
};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use tollgate::{
    EachOf, End, Hold, Quota, RateLimitLayer, RateLimiter,
    algorithm::{InFlight, KeyLimit, Settled, SlidingLog, TokenBucket},
    clock::ManualClock,
    key::{Global, Key},
    options::WithCost,
    response::{Grpc, Http},
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimit, service_fn};

use crate::at_once::at_once;
use crate::local::{Limiter, MINUTE, START, left, remaining, store};
use crate::ready::ready;

/// Ten units an hour, held until they are settled.
fn ten() -> Ten {
    SlidingLog::new(Quota::per_hour(10)).settled()
}

type Ten = Settled<SlidingLog>;
type Holding = RateLimitLayer<Ten, LocalStore<Ten, ()>, Global, Http, WithCost<u32>>;

/// A layer whose requests hold so many of them.
fn holding(cost: u32) -> Holding {
    RateLimitLayer::new(ten(), LocalStore::new(), Global).cost(cost)
}

fn held<A: KeyLimit, K: Key>(limiter: &Limiter<A, K>, key: &K, cost: u32) -> Option<Hold> {
    ready(limiter.hold(key, cost)).unwrap().ok()
}

fn asked() -> Request<Body> {
    Request::new(Body::empty())
}

async fn answered(app: &Router) -> (StatusCode, String) {
    let response = app.clone().oneshot(asked()).await.unwrap();
    let field = response.headers()["ratelimit"].to_str().unwrap().to_owned();
    (response.status(), field)
}

#[tokio::test]
async fn what_a_handler_settles_is_settled_for_each_of_its_layers() {
    let in_flight = RateLimitLayer::new(InFlight::new(1), LocalStore::new(), Global);
    let (outer, inner) = (holding(4), holding(4));
    let limiters = [&outer, &inner].map(|layer| layer.limiter().clone());
    let handler = async |Extension(hold): Extension<Hold>| drop(hold.settle(1));
    let app = Router::new().route("/", get(handler));
    let app = app.layer(in_flight).layer(inner).layer(outer);
    for left in [9, 8, 7] {
        assert_eq!(answered(&app).await.0, StatusCode::OK);
        let remaining = |limiter: &RateLimiter<_, _>| limiter.peek(&()).now().remaining();
        assert_eq!(limiters.each_ref().map(remaining), [left, left]);
    }
}

#[tokio::test]
async fn the_fields_tell_what_is_left_after_the_settlement() {
    let settle = |response: &Response| u32::from(response.status() == StatusCode::OK);
    let limit = holding(5).settle(settle);
    let app = Router::new().route("/", get(async || ())).layer(limit);
    for left in (4..=9).rev() {
        let (status, field) = answered(&app).await;
        assert_eq!(status, StatusCode::OK);
        assert!(field.contains(&format!(";r={left};")), "{field}");
    }
    assert_eq!(answered(&app).await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_service_that_fails_keeps_its_hold() {
    let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("broken"));
    let limit = holding(6).settle(|_: &Response| 0);
    let mut service = limit.layer(failing);
    let failed = service.call(asked()).await;
    assert_eq!(failed.unwrap_err(), "broken");
    let response = service.call(asked()).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_end_knows_that_the_service_failed_and_what_it_says_is_charged() {
    for (charged_if_failed, left) in [(0, 10), (2, 8), (6, 4), (9, 1)] {
        let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("broken"));
        let limit = holding(6).settle_at_end(move |end: &End| {
            assert!(end.service_failed() && !end.is_complete());
            assert_eq!((end.status().as_u16(), end.bytes()), (500, 0));
            assert!(end.headers().is_empty() && end.trailers().is_none());
            assert_eq!(end.held(), 6);
            charged_if_failed
        });
        let limiter = limit.limiter().clone();
        let failed = limit.layer(failing).call(asked()).await;
        assert_eq!(failed.unwrap_err(), "broken");
        assert_eq!(limiter.peek(&()).now().remaining(), left);
    }
}

#[tokio::test]
async fn a_service_that_is_dropped_or_panics_keeps_its_hold_and_nobody_is_told() {
    let told = |_: &End| -> u32 { panic!("there is no end") };
    let limit = holding(3).settle_at_end(told);
    let limiter = limit.limiter().clone();
    let panics = service_fn(
        async |request: Request<Body>| -> Result<Response, Infallible> {
            match request.uri().path() {
                "/panics" => panic!("broken"),
                _ => std::future::pending().await,
            }
        },
    );
    let mut service = limit.layer(panics);
    let mut dropped = Box::pin(service.call(asked()));
    assert!(dropped.as_mut().now_or_never().is_none());
    drop(dropped);
    assert_eq!(limiter.peek(&()).now().remaining(), 7);

    let request = Request::get("/panics").body(Body::empty()).unwrap();
    let panicked = tokio::spawn(service.call(request)).await.unwrap_err();
    assert!(panicked.is_panic());
    assert_eq!(limiter.peek(&()).now().remaining(), 4);
}

#[test]
fn of_several_clones_one_settles() {
    let (store, _) = store(1_000);
    let limiter = RateLimiter::new(ten(), store);
    for turn in 0..200 {
        // A second settlement would free this one.
        let _other = held(&limiter, &turn, 2).unwrap();
        let hold = held(&limiter, &turn, 8).unwrap();
        at_once(4, |_| drop(hold.clone().settle(3)));
        drop(hold);
        assert_eq!(remaining(&limiter, &turn), 10 - 2 - 3);
    }
}

#[test]
fn what_is_checked_by_hand_is_charged_at_once_as_nobody_can_settle_it() {
    let (store, clock) = store(10);
    let bucket = TokenBucket::new(Quota::per_minute(60)).settled();
    let limiter = RateLimiter::new(bucket, store);
    let charges: [&dyn Fn(); 3] = [
        &|| assert!(ready(limiter.check_cost(&1, 30)).unwrap().is_admitted()),
        &|| assert!(limiter.check_cost(&1, 30).now().is_admitted()),
        &|| assert!(ready(limiter.until_ready(&1, 30)).unwrap().is_admitted()),
    ];
    for charge in charges {
        charge();
        assert_eq!(remaining(&limiter, &1), 30);
        clock.advance(MINUTE / 4);
        assert_eq!(remaining(&limiter, &1), 45, "it is paid off");
        clock.advance(MINUTE / 4);
    }
}

#[test]
fn a_debt_in_the_shared_bucket_stops_at_its_capacity() {
    let (store, clock) = store(1);
    let bucket = TokenBucket::new(Quota::per_minute(60)).settled();
    let limiter = RateLimiter::new(bucket, store.clone());
    let _known = held(&limiter, &0, 60).unwrap();
    let spendthrift = held(&limiter, &1, 10).unwrap();
    drop(spendthrift.settle(1_000_000));
    ready(limiter.debit(&2, 1_000_000)).unwrap();
    clock.advance(MINUTE);
    // Newcomers wait no longer than a full bucket takes.
    assert_eq!(remaining(&limiter, &3), 60);
}

#[test]
fn what_is_spent_beyond_a_hold_in_the_shared_bucket_is_charged_there() {
    let (store, _) = store(1);
    let bucket = TokenBucket::new(Quota::per_hour(60)).settled();
    let limiter = RateLimiter::new(bucket, store.clone());
    let _known = held(&limiter, &0, 1).unwrap();
    let [more, less] = [1, 2].map(|key| held(&limiter, &key, 10).unwrap());
    drop(more.settle(13));
    drop(less.settle(4));
    ready(limiter.debit(&4, 5)).unwrap();
    assert_eq!(remaining(&limiter, &3), 60 - 13 - 4 - 5);
    assert_eq!(store.usage().keys, 1);
}

#[test]
fn a_hold_that_is_gone_charges_nobody_when_no_more_than_it_was_spent() {
    let (store, _) = store(10);
    let limiter = RateLimiter::new(ten(), store.clone());
    for spent in [0, 3, 4] {
        let gone = held(&limiter, &1, 4).unwrap();
        ready(limiter.reset(&1)).unwrap();
        drop(gone.settle(spent));
        assert_eq!(store.usage().keys, 0, "{spent} of 4");
    }
    let gone = held(&limiter, &1, 4).unwrap();
    ready(limiter.reset(&1)).unwrap();
    drop(gone.settle(5));
    let usage = store.usage();
    assert_eq!((usage.keys, usage.overflow_decisions), (1, 0));
    assert_eq!(remaining(&limiter, &1), 9);
}

#[test]
fn a_bucket_owes_up_to_2_53_parts_of_a_unit_settled_or_not() {
    fn wait_after<A: KeyLimit>(rule: A, units: u32) -> Duration {
        let limiter = RateLimiter::new(rule, store(10).0);
        ready(limiter.debit(&1, units)).unwrap();
        let refused = ready(limiter.check(&1)).unwrap();
        refused.retry_after().unwrap()
    }
    let day = 86_400_000_000_u64;
    let exact = |parts: u64, paid: u64| Duration::from_micros(parts.div_ceil(paid));
    let prime = TokenBucket::new(Quota::per_day(100_003));
    // A day and the quota have no common divisor: a unit has a part for each microsecond.
    let below = wait_after(prime.clone(), 104_249);
    assert_eq!(below, exact((104_249 + 1 - 100_003) * day, 100_003));
    let owed = (1 << 53) - 1;
    let wait = exact(owed - 100_002 * day, 100_003);
    for beyond in [104_250, 200_006, u32::MAX] {
        assert_eq!(wait_after(prime.clone(), beyond), wait, "{beyond}");
        let settled = wait_after(prime.clone().settled(), beyond);
        assert_eq!(settled, wait, "{beyond}");
    }
    let even = wait_after(TokenBucket::new(Quota::per_day(100_000)), u32::MAX);
    let units = u64::from(u32::MAX) + 1 - 100_000;
    assert_eq!(even, exact(units * (day / 100_000), 1));
}

#[test]
fn each_of_several_keys_settles_its_own_and_gives_its_own_place_back() {
    let store = LocalStore::builder().clock(ManualClock::at(START)).build();
    let account = TokenBucket::new(Quota::per_hour(20)).settled();
    let limiter = RateLimiter::new(EachOf((ten(), account, InFlight::new(2))), store);
    let caller = |name: &str, place| EachOf((Some(name.to_owned()), Some(7_u64), place));
    let held = |name, place| ready(limiter.hold(&caller(name, place), 10)).unwrap();
    let left = |name, place| left(&ready(limiter.peek(&caller(name, place))).unwrap());
    let hold = held("ann", Some(1_u64)).unwrap();
    assert!(held("ann", None).is_err());
    let other = held("bob", Some(1)).unwrap();
    assert_eq!(left("cid", Some(1)), [10, 0, 0]);
    drop(hold.settle(2));
    assert_eq!(left("ann", Some(1)), [8, 8, 1]);
    drop(other);
    assert_eq!(left("bob", Some(1)), [0, 8, 2]);
}

#[tokio::test]
async fn the_end_knows_what_was_sent_and_how_long_it_took_and_what_it_says_is_charged() {
    const PAUSE: Duration = Duration::from_millis(5);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let ends = Arc::clone(&seen);
    let limit = holding(2).settle_at_end(move |end: &End| {
        assert!(end.duration() >= PAUSE);
        assert_eq!(end.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(end.headers()["x-field"], "7");
        let trailer = end.trailers().map(|trailers| trailers["x-status"].clone());
        let mut ends = ends.lock().unwrap();
        ends.push((end.bytes(), end.kib(), trailer, end.is_complete()));
        end.kib()
    });
    let limiter = limit.limiter().clone();
    let inner = service_fn(async move |_: Request<Body>| {
        tokio::time::sleep(PAUSE).await;
        let trailers = HeaderMap::from_iter([("x-status".parse().unwrap(), "7".parse().unwrap())]);
        let body = Full::new(Bytes::from("hello")).with_trailers(ready_future(Some(Ok(trailers))));
        let response = Response::builder().status(206).header("x-field", "7");
        Ok::<_, Infallible>(response.body(Body::new(body)).unwrap())
    });
    let service = limit.layer(inner);
    let ask = || service.clone().oneshot(asked());
    ask().await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(limiter.peek(&()).now().remaining(), 9);
    let mut hangs_up = ask().await.unwrap().into_body();
    assert_eq!(limiter.peek(&()).now().remaining(), 7);
    hangs_up.frame().await.unwrap().unwrap();
    drop(hangs_up);
    drop(ask().await.unwrap());
    assert_eq!(limiter.peek(&()).now().remaining(), 8);
    let trailer = Some("7".parse().unwrap());
    let [whole, half] = [(5, 1, trailer, true), (5, 1, None, false)];
    assert_eq!(*seen.lock().unwrap(), [whole, half, (0, 0, None, false)]);
}

#[tokio::test]
async fn what_nobody_settles_is_charged_at_the_head_of_the_response() {
    let (store, clock) = store(1);
    let quota = TokenBucket::new(Quota::per_minute(6)).settled();
    let limit = RateLimitLayer::new(quota, store, Global);
    let limiter = limit.limiter().clone();
    let app = Router::new()
        .route("/", get(async || "hello"))
        .layer(limit.cost(6_u32));
    let response = app.oneshot(asked()).await.unwrap();
    assert_eq!(remaining(&limiter, &()), 0);
    // It comes back from then on, though the body is still there.
    clock.advance(MINUTE);
    assert_eq!(remaining(&limiter, &()), 6);
    drop(response);
    assert_eq!(remaining(&limiter, &()), 6);
}

#[tokio::test]
async fn a_request_that_costs_nothing_holds_nothing() {
    let store = LocalStore::new();
    let limit = RateLimitLayer::new(ten(), store.clone(), Global).cost(0_u32);
    let handler = async |hold: Option<Extension<Hold>>| assert!(hold.is_none());
    let free = Router::new().route("/", get(handler)).layer(limit.clone());
    let settled = Router::new()
        .route("/", get(async || ()))
        .layer(limit.settle(|_: &Response| 25));
    for app in [free, settled] {
        assert_eq!(answered(&app).await.0, StatusCode::OK);
    }
    let limiter = RateLimiter::new(ten(), store);
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 10);
}

#[test]
fn a_service_that_settles_at_the_end_is_ready_when_the_inner_one_is() {
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global).settle_at_end(|_: &End| 1);
    let inner =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
    let mut service = limit.layer(ConcurrencyLimit::new(inner, 0));
    let ready = service.poll_ready(&mut Context::from_waker(Waker::noop()));
    assert!(ready.is_pending());
}

#[test]
fn a_grpc_service_settles_its_hold_and_keeps_its_place_until_its_body_has_ended() {
    let (limits, store) = ((InFlight::new(1), ten()), LocalStore::new());
    let limit = RateLimitLayer::new(limits.clone(), store.clone(), Global);
    let limit = limit.cost(4).respond_with(Grpc::new());
    let service = limit.layer(service_fn(async |mut call: Request<()>| {
        let hold: Hold = call.extensions_mut().remove().unwrap();
        hold.settle(1);
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello")).boxed()))
    }));
    let call = || ready(service.clone().oneshot(Request::new(()))).unwrap();
    let runs = call();
    assert_eq!(call().headers()["grpc-status"], "8");
    assert_eq!(
        ready(runs.into_body().collect()).unwrap().to_bytes(),
        "hello"
    );
    let peeked = ready(RateLimiter::new(limits, store).peek(&())).unwrap();
    assert_eq!(left(&peeked), [1, 9]);
}
