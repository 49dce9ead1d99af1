//! At most so many requests of a key at once: who is counted, for how long, and how each one ends.

use std::{
    convert::Infallible,
    future::pending,
    panic::catch_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    http::{Request, StatusCode},
    response::Response,
    routing::get,
};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use tollgate::{
    Decision, End, Hold, Quota, RateLimitLayer, RateLimiter,
    algorithm::{InFlight, TokenBucket},
    key::{Global, from_fn},
    response::AsError,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::at_once::at_once;
use crate::local::{MINUTE, left, store};
use crate::ready::ready;
use crate::seen::panics;

type Places = LocalStore<InFlight, ()>;

fn request() -> Request<Body> {
    Request::get("/").body(Body::empty()).unwrap()
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// How many requests are in flight.
fn taken(limit: &RateLimitLayer<InFlight, Places, Global>) -> u64 {
    let peeked = limit.limiter().peek(&()).now();
    peeked.limit() - peeked.remaining()
}

fn layer(requests: u64) -> RateLimitLayer<InFlight, Places, Global> {
    RateLimitLayer::new(InFlight::new(requests), LocalStore::new(), Global)
}

fn hold<S>(limiter: &RateLimiter<InFlight, S>, key: &str, cost: u32) -> Result<Hold, Box<Decision>>
where
    S: tollgate::store::Store<InFlight, String>,
{
    ready(limiter.hold(key, cost)).unwrap()
}

#[test]
fn a_key_that_no_longer_shares_the_bucket_of_a_full_store_owes_the_places_that_are_taken_there() {
    let (store, clock) = store(1);
    let limiter = RateLimiter::new(InFlight::new(2).held_at_most(MINUTE), store);
    let own = hold(&limiter, "has an entry", 1).unwrap();
    let shared = hold(&limiter, "has none", 1).unwrap();
    drop(own);
    // Each call visits a few entries: now there is room.
    for _ in 0..9 {
        limiter.peek("has none").now();
    }
    clock.advance(Duration::from_millis(1));
    let second = hold(&limiter, "has none", 1).unwrap();
    assert!(hold(&limiter, "has none", 1).is_err());
    drop(shared);
    assert!(hold(&limiter, "has none", 1).is_err());
    clock.advance(MINUTE);
    let third = hold(&limiter, "has none", 1).unwrap();
    drop([second, third]);
}

#[test]
fn however_many_threads_ask_at_most_n_of_a_key_are_in_flight() {
    let limiter = RateLimiter::new(InFlight::new(5), LocalStore::new());
    let [now, most, admitted] = [const { AtomicU64::new(0) }; 3];
    at_once(16, |_| {
        for _ in 0..2_000 {
            if let Ok(hold) = hold(&limiter, "bob", 1) {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                admitted.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                drop(hold);
            }
        }
    });
    assert_eq!(most.into_inner(), 5);
    assert!(admitted.into_inner() > 1_000);
    assert_eq!(limiter.peek("bob").now().remaining(), 5, "none is lost");
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_ended() {
    let limit = layer(1);
    let response = hello().layer(limit.clone()).oneshot(request());
    let response = response.await.unwrap();
    assert_eq!(response.headers()["content-length"], "5");
    let mut body = response.into_body();
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "hello");
    assert_eq!(taken(&limit), 1);
    assert!(body.frame().await.is_none());
    assert_eq!(taken(&limit), 0, "it has ended, although it is still there");
    drop(body);
    assert_eq!(taken(&limit), 0);
}

#[tokio::test]
async fn a_caller_who_hangs_up_gives_the_place_back() {
    let limit = layer(1);
    let waiting = service_fn(async |_: Request<Body>| {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let mut service = limit.layer(waiting);
    let mut call = Box::pin(service.call(request()));
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!(taken(&limit), 1);
    drop(call);
    assert_eq!(taken(&limit), 0, "before there was a response");

    let response = hello().layer(limit.clone()).oneshot(request()).await;
    assert_eq!(taken(&limit), 1);
    drop(response);
    assert_eq!(taken(&limit), 0, "before its body had ended");
}

#[tokio::test]
async fn a_handler_that_panics_and_a_service_that_fails_give_the_place_back() {
    let limit = layer(1);
    let later = service_fn(async |_: Request<Body>| -> Result<Response, Infallible> {
        panic!("in the future")
    });
    let mut service = limit.layer(later);
    let mut call = Box::pin(service.call(request()));
    assert!(panics(|| call.as_mut().now_or_never()));
    drop(call);
    assert_eq!(taken(&limit), 0);

    type Never = std::future::Ready<Result<Response, Infallible>>;
    let at_once = service_fn(|_: Request<Body>| -> Never { panic!("in `call`") });
    assert!(panics(|| limit.layer(at_once).call(request())));
    assert_eq!(taken(&limit), 0);

    let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("broken"));
    let mut service = limit.layer(failing);
    let mut call = Box::pin(service.call(request()));
    assert!(matches!(call.as_mut().now_or_never(), Some(Err("broken"))));
    // At once, although the future is still there.
    assert_eq!(taken(&limit), 0);
}

#[tokio::test]
async fn a_body_that_is_whole_in_memory_has_ended_and_counts_as_sent() {
    let inner = service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
    });
    let (limit, ends) = (layer(1), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&ends);
    let at_end = limit.clone().settle_at_end(move |end: &End| {
        seen.lock().unwrap().push((end.bytes(), end.is_complete()));
        0
    });
    let response = limit.layer(inner).oneshot(request()).await.unwrap();
    assert_eq!(taken(&limit), 0);
    drop(response);

    let response = at_end.layer(inner).oneshot(request()).await.unwrap();
    assert_eq!(taken(&limit), 0);
    assert_eq!(*ends.lock().unwrap(), [(5, true)]);
    drop(response);
}

#[tokio::test]
async fn a_service_without_bodies_ends_with_its_answer() {
    let one = from_fn(|_: &u32| Ok::<_, Infallible>(Some(())));
    let limit = RateLimitLayer::new(InFlight::new(1), LocalStore::new(), one);
    let limit = limit.respond_with(AsError::new());
    let mut service = limit.layer(service_fn(async |number: u32| {
        if number == 0 {
            pending::<()>().await;
        }
        Ok::<u32, Infallible>(number)
    }));
    let mut waits = Box::pin(service.call(0));
    assert!(waits.as_mut().now_or_never().is_none());
    let refused = service.call(7).await.unwrap_err().to_string();
    let told = "Too many requests are in flight. Try again when one of them has ended.";
    assert_eq!(refused, told);
    drop(waits);
    for number in [7, 8] {
        assert_eq!(service.call(number).await.unwrap(), number);
    }
}

#[tokio::test]
async fn a_refusal_names_no_instant_at_which_it_would_fit() {
    let limit = RateLimitLayer::new(InFlight::new(1).named("two"), LocalStore::new(), Global);
    let app = hello().layer(limit);
    let first = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(first.headers()["ratelimit"], r#""two";r=0"#);
    let policy = r#""two";q=1;qu="concurrent-requests""#;
    assert_eq!(first.headers()["ratelimit-policy"], policy);

    let refused = app.oneshot(request()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["ratelimit-policy"], policy);
    assert_eq!(refused.headers()["ratelimit"], r#""two";r=0"#);
    assert!(!refused.headers().contains_key("retry-after"));
    let decision = refused.extensions().get::<Decision>().unwrap();
    assert_eq!(decision.retry_after(), None);
    assert!(!decision.never_fits());
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body);
    assert!(
        text.contains("Try again when one of them has ended."),
        "{text}"
    );
}

#[tokio::test]
async fn beside_what_is_settled_a_handler_settles_and_stays_in_flight() {
    let tokens = TokenBucket::new(Quota::per_hour(1_000)).named("tokens");
    let limits = (InFlight::new(2), tokens.settled());
    let limit = RateLimitLayer::new(limits, LocalStore::new(), Global).cost(600);
    let handler = async |Extension(hold): Extension<Hold>| {
        hold.settle(100).await.unwrap();
        "hello"
    };
    let app: Router = Router::new().route("/", get(handler)).layer(limit.clone());
    let response = app.clone().oneshot(request()).await.unwrap();
    let left = || left(&limit.limiter().peek(&()).now());
    assert_eq!(left(), [1, 900]);
    drop(response);
    assert_eq!(left(), [2, 900]);
}

#[test]
fn a_time_that_no_renewal_can_keep_is_refused_by_value() {
    let of = |time| catch_unwind(|| InFlight::new(5).held_at_most(time)).map(drop);
    let message = |time| *of(time).unwrap_err().downcast::<String>().unwrap();
    let short = message(Duration::from_micros(99_999));
    assert!(short.contains("99.999ms"), "{short}");
    assert!(of(Duration::from_millis(100)).is_ok());
    let long = message(Duration::from_micros((1 << 50) + 1));
    assert!(long.contains("1125899906.842625s"), "{long}");
    assert!(of(Duration::from_micros(1 << 50)).is_ok());
    assert!(of(Duration::MAX).is_err());
    let named = InFlight::new(7)
        .held_at_most(Duration::from_secs(1))
        .named("x");
    let limiter = RateLimiter::new(named, LocalStore::<_, ()>::new());
    let peeked = limiter.peek(&()).now();
    assert_eq!((peeked.policy(), peeked.limit()), ("x", 7));
}
