//! At most so many requests of a key at once: who is counted, for how long, and how each one ends.

use std::{
    convert::Infallible,
    future::pending,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
    response::Response,
    routing::get,
};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tollgate::{
    ConfigError, Decision, EachOf, End, Hold, Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::{InFlight, TokenBucket},
    choice::by_request,
    key::{Global, Header, from_fn},
    response::AsError,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::local::store;
use crate::polled::polled;
use crate::ready::ready;

type Places = LocalStore<InFlight, ()>;

fn request() -> Request<Body> {
    Request::get("/").body(Body::empty()).unwrap()
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
fn however_many_threads_ask_at_most_n_of_a_key_are_in_flight() {
    const THREADS: usize = 16;
    let limiter = RateLimiter::new(InFlight::new(5), LocalStore::new());
    let [now, most, admitted] = [const { AtomicU64::new(0) }; 3];
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
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
        }
    });
    assert_eq!(most.into_inner(), 5);
    assert!(admitted.into_inner() > 1_000);
    assert_eq!(limiter.peek("bob").now().remaining(), 5, "none is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn however_many_tasks_ask_at_most_n_are_in_the_handler() {
    let [now, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (Arc::clone(&now), Arc::clone(&most));
    let handler = async move || {
        peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        counted.fetch_sub(1, Ordering::SeqCst);
        "done"
    };
    let limit = layer(3);
    let app: Router = Router::new().route("/", get(handler)).layer(limit.clone());
    let asked = (0..2_000).map(|_| {
        let app = app.clone();
        tokio::spawn(async move {
            let response = app.oneshot(request()).await.unwrap();
            let status = response.status();
            response.into_body().collect().await.unwrap();
            status
        })
    });
    let mut admitted = 0;
    for answered in asked.collect::<Vec<_>>() {
        match answered.await.unwrap() {
            StatusCode::OK => admitted += 1,
            status => assert_eq!(status, StatusCode::TOO_MANY_REQUESTS),
        }
    }
    assert!(admitted >= 3 && most.load(Ordering::SeqCst) <= 3);
    assert_eq!(taken(&limit), 0);
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_ended() {
    let limit = layer(1);
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .layer(limit.clone());
    let response = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(response.headers()["content-length"], "5");
    let mut body = response.into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "hello"
    );
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
    assert!(polled(call.as_mut()).is_pending());
    assert_eq!(taken(&limit), 1);
    drop(call);
    assert_eq!(taken(&limit), 0, "before there was a response");

    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .layer(limit.clone());
    let response = app.oneshot(request()).await.unwrap();
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
    let panicked = catch_unwind(AssertUnwindSafe(|| polled(call.as_mut())));
    assert!(panicked.is_err());
    drop(call);
    assert_eq!(taken(&limit), 0);

    let at_once = service_fn(
        |_: Request<Body>| -> std::future::Ready<Result<Response, Infallible>> {
            panic!("in `call`")
        },
    );
    let mut service = limit.layer(at_once);
    let panicked = catch_unwind(AssertUnwindSafe(|| service.call(request())));
    assert!(panicked.is_err());
    assert_eq!(taken(&limit), 0);

    let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("broken"));
    let mut service = limit.layer(failing);
    let mut call = Box::pin(service.call(request()));
    assert!(matches!(polled(call.as_mut()), Poll::Ready(Err("broken"))));
    assert_eq!(
        taken(&limit),
        0,
        "at once, although the future is still there"
    );
}

#[tokio::test]
async fn a_body_that_fails_has_ended() {
    let limit = layer(1);
    let inner =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::new(Failing))));
    let response = limit.layer(inner).oneshot(request()).await.unwrap();
    let mut body = response.into_body();
    assert_eq!(taken(&limit), 1);
    assert!(body.frame().await.unwrap().is_err());
    assert_eq!(taken(&limit), 0);
}

/// A body that fails at once.
struct Failing;

impl http_body::Body for Failing {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Err(std::io::Error::other("broken"))))
    }
}

#[tokio::test]
async fn a_body_that_is_whole_in_memory_has_ended_unless_it_is_settled_at_its_end() {
    let limit = layer(1);
    let inner = service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
    });
    let response = limit.layer(inner).oneshot(request()).await.unwrap();
    assert_eq!(taken(&limit), 0);
    drop(response);

    let until_sent = limit.clone().settle_at_end(|_: &End<'_>| 0);
    let response = until_sent.layer(inner).oneshot(request()).await.unwrap();
    assert_eq!(taken(&limit), 1);
    response.into_body().collect().await.unwrap();
    assert_eq!(taken(&limit), 0);
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
    assert!(polled(waits.as_mut()).is_pending());
    let refused = service.call(7).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "too many requests of the limit \"in-flight-1\" are in flight"
    );
    drop(waits);
    for number in [7, 8] {
        assert_eq!(service.call(number).await.unwrap(), number);
    }
}

#[tokio::test]
async fn a_refusal_names_no_instant_at_which_it_would_fit() {
    let limit = RateLimitLayer::new(InFlight::new(1).named("two"), LocalStore::new(), Global);
    let app: Router = Router::new().route("/", get(async || "hello")).layer(limit);
    let first = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(first.headers()["ratelimit"], r#""two";r=0"#);
    let policy = r#""two";q=1;qu="concurrent-requests""#;
    assert_eq!(first.headers()["ratelimit-policy"], policy);

    let refused = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["ratelimit-policy"], policy);
    assert_eq!(refused.headers()["ratelimit"], r#""two";r=0"#);
    assert!(!refused.headers().contains_key("retry-after"));
    let decision = refused.extensions().get::<Decision>().unwrap();
    assert_eq!(
        (decision.retry_after(), decision.never_fits()),
        (None, false)
    );
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    assert!(
        text.contains("Try again when one of them has ended."),
        "{text}"
    );

    let call = Request::post("/pkg.Service/Call").header("content-type", "application/grpc");
    let refused = app
        .oneshot(call.body(Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(refused.headers()["grpc-status"], "8");
    assert_eq!(
        refused.headers()["grpc-message"],
        "too many requests are in flight"
    );
    assert!(!refused.headers().contains_key("grpc-retry-pushback-ms"));
    let details = &refused.headers()["grpc-status-details-bin"];
    let details = STANDARD_NO_PAD.decode(details).unwrap();
    let names = |name: &[u8]| details.windows(name.len()).any(|part| part == name);
    assert!(names(b"google.rpc.QuotaFailure") && !names(b"google.rpc.RetryInfo"));
}

#[test]
fn each_request_takes_one_place_whatever_it_costs_and_none_at_a_cost_of_0() {
    let limiter = RateLimiter::new(InFlight::new(3), LocalStore::new());
    let holds = [1, 700, u32::MAX].map(|cost| hold(&limiter, "bob", cost).unwrap());
    assert_eq!(limiter.peek("bob").now().remaining(), 0);
    let _nothing = hold(&limiter, "bob", 0).unwrap();
    assert!(hold(&limiter, "bob", 1).is_err());
    drop(holds);
    assert_eq!(limiter.peek("bob").now().remaining(), 3);
}

#[test]
fn a_hold_ends_once_when_it_is_settled_or_when_the_last_clone_is_dropped() {
    let limiter = RateLimiter::new(InFlight::new(3), LocalStore::new());
    let [settled, dropped, _kept] = [(); 3].map(|()| hold(&limiter, "bob", 1).unwrap());
    let clone = settled.clone();
    ready(settled.settle(5)).unwrap();
    assert_eq!(limiter.peek("bob").now().remaining(), 1);
    drop((clone.settle(0), clone, settled));
    assert_eq!(limiter.peek("bob").now().remaining(), 1, "it had ended");

    let clone = dropped.clone();
    drop(dropped);
    assert_eq!(limiter.peek("bob").now().remaining(), 1, "a clone is there");
    drop(clone);
    assert_eq!(limiter.peek("bob").now().remaining(), 2);
}

#[test]
fn in_memory_a_place_is_kept_however_long_it_takes() {
    let (store, clock) = store(10);
    let limiter = RateLimiter::new(InFlight::new(1), store.clone());
    let first = hold(&limiter, "bob", 1).unwrap();
    for year in 0..30 {
        clock.advance(Duration::from_secs(365 * 86_400));
        assert!(hold(&limiter, "bob", 1).is_err(), "year {year}");
        assert!(
            hold(&limiter, &format!("other {year}"), 1).is_ok(),
            "a sweep"
        );
    }
    drop(first);
    assert!(hold(&limiter, "bob", 1).is_ok());
}

#[test]
fn what_was_in_flight_before_a_reset_frees_nothing_of_what_came_after() {
    let (store, clock) = store(10);
    let limiter = RateLimiter::new(InFlight::new(2), store);
    let before = [(); 2].map(|()| hold(&limiter, "bob", 1).unwrap());
    ready(limiter.reset("bob")).unwrap();
    clock.advance(Duration::from_micros(1));
    let after = hold(&limiter, "bob", 1).unwrap();
    drop(before);
    assert_eq!(limiter.peek("bob").now().remaining(), 1);
    drop(after);
    assert_eq!(limiter.peek("bob").now().remaining(), 2);
}

#[test]
fn a_clock_that_steps_back_loses_no_place() {
    let (store, clock) = store(10);
    let limiter = RateLimiter::new(InFlight::new(2), store);
    let first = hold(&limiter, "bob", 1).unwrap();
    clock.set(Timestamp::from_micros(crate::local::START.as_micros() / 2));
    let second = hold(&limiter, "bob", 1).unwrap();
    assert!(hold(&limiter, "bob", 1).is_err());
    drop(first);
    assert_eq!(limiter.peek("bob").now().remaining(), 1);
    drop(second);
    assert_eq!(limiter.peek("bob").now().remaining(), 2);
}

#[test]
fn new_keys_of_a_full_store_share_its_places_and_each_gives_back_its_own() {
    let (store, clock) = store(1);
    let limiter = RateLimiter::new(InFlight::new(3), store.clone());
    let known = hold(&limiter, "known", 1).unwrap();
    let shared = [(); 2].map(|()| hold(&limiter, "ann", 1).unwrap());
    assert_eq!(store.usage().overflow_decisions, 2);
    assert_eq!(limiter.peek("bob").now().remaining(), 1);

    // There is room again: whoever gets an entry counts what is in flight in the shared bucket,
    // which may be its own, but not for ever.
    drop(known);
    ready(limiter.reset("known")).unwrap();
    clock.advance(Duration::from_secs(1));
    let own = hold(&limiter, "ann", 1).unwrap();
    assert!(hold(&limiter, "ann", 1).is_err());
    clock.advance(Duration::from_secs(60));
    assert_eq!(limiter.peek("ann").now().remaining(), 2);
    drop((shared, own));
    assert_eq!(limiter.peek("ann").now().remaining(), 3);
    assert_eq!(limiter.peek("bob").now().remaining(), 3);
}

#[tokio::test]
async fn beside_a_bucket_in_a_tuple_both_must_admit_and_a_refused_request_takes_no_place() {
    let bucket = TokenBucket::new(Quota::per_hour(3)).named("tokens");
    let limits = (InFlight::new(2).named("at-once"), bucket);
    let limit = RateLimitLayer::new(limits, LocalStore::new(), Global);
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .layer(limit.clone());
    let ask = || app.clone().oneshot(request());
    let [first, second] = [ask().await.unwrap(), ask().await.unwrap()];
    let refused = ask().await.unwrap();
    assert_eq!(refused.headers()["ratelimit"], r#""at-once";r=0"#);
    drop((first, second));
    drop(ask().await.unwrap());
    // The bucket is empty, and what it refuses is not in flight.
    for _ in 0..5 {
        let refused = ask().await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.headers().contains_key("retry-after"));
    }
    let peeked = limit.limiter().peek(&()).now();
    assert_eq!(peeked.policies()[0].remaining(), 2);
}

#[tokio::test]
async fn beside_what_is_settled_a_handler_settles_and_stays_in_flight() {
    let tokens = TokenBucket::new(Quota::per_hour(1_000))
        .named("tokens")
        .settled();
    let limits = (InFlight::new(2), tokens);
    let limit = RateLimitLayer::new(limits, LocalStore::new(), Global).cost(600);
    let handler = async |Extension(hold): Extension<Hold>| {
        hold.settle(100).await.unwrap();
        "hello"
    };
    let app: Router = Router::new().route("/", get(handler)).layer(limit.clone());
    let response = app.clone().oneshot(request()).await.unwrap();
    let left = || {
        let peeked = limit.limiter().peek(&()).now();
        [0, 1].map(|place| peeked.policies()[place].remaining())
    };
    assert_eq!(left(), [1, 900]);
    drop(response);
    assert_eq!(left(), [2, 900]);

    // By its head, too: what was spent is known then, and the body goes on.
    let by_head = limit.clone().settle(|_: &Response| 50);
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .layer(by_head);
    let response = app.oneshot(request()).await.unwrap();
    assert_eq!(left(), [1, 850]);
    drop(response);
    assert_eq!(left(), [2, 850]);

    let at_end = limit.clone().settle_at_end(|end: &End<'_>| end.kib());
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .layer(at_end);
    let response = app.oneshot(request()).await.unwrap();
    assert_eq!(left(), [1, 250]);
    response.into_body().collect().await.unwrap();
    assert_eq!(left(), [2, 849]);
}

#[test]
fn each_of_several_keys_gives_its_own_place_back() {
    let limits = EachOf((
        InFlight::new(2).named("user"),
        InFlight::new(3).named("tenant"),
        TokenBucket::new(Quota::per_hour(9)),
    ));
    let limiter = RateLimiter::new(limits, LocalStore::new());
    let caller = |name: &str| EachOf((Some(name.to_owned()), Some(7_u64), Some(())));
    let holds = ["ann", "ann", "bob"].map(|name| {
        let held = ready(limiter.hold(&caller(name), 1)).unwrap();
        held.unwrap()
    });
    let refused = ready(limiter.hold(&caller("bob"), 1)).unwrap().unwrap_err();
    assert_eq!(refused.policy(), "tenant");
    let [first, second, _third] = holds;
    drop(first);
    let left = |name| {
        let peeked = limiter.peek(&caller(name)).now();
        [0, 1].map(|place| peeked.policies()[place].remaining())
    };
    assert_eq!((left("ann"), left("bob")), ([1, 1], [1, 1]));
    drop(second);
    assert_eq!((left("ann"), left("bob")), ([2, 2], [1, 2]));
}

#[tokio::test]
async fn each_plan_has_its_own_number_and_counts_what_the_others_have_in_flight() {
    let places = |headers: &HeaderMap| match headers.get("x-paid") {
        Some(_) => InFlight::new(3).named("at-once"),
        None => InFlight::new(1).named("at-once"),
    };
    let limit = RateLimitLayer::new(
        by_request(move |request: &Request<Body>| places(request.headers())),
        LocalStore::new(),
        Header::new("x-user"),
    );
    let app: Router = Router::new().route("/", get(async || "hello")).layer(limit);
    let ask = |paid: bool| {
        let mut request = Request::get("/").header("x-user", "bob");
        if paid {
            request = request.header("x-paid", "yes");
        }
        app.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let mut running = Vec::new();
    for (paid, status) in [
        (false, 200),
        (false, 429),
        (true, 200),
        (true, 200),
        (true, 429),
    ] {
        let response = ask(paid).await.unwrap();
        assert_eq!(response.status(), status);
        if status == 200 {
            running.push(response);
        }
    }
    running.truncate(1);
    assert_eq!(ask(false).await.unwrap().status(), 429);
    running.clear();
    assert_eq!(ask(false).await.unwrap().status(), 200);
}

#[test]
fn with_no_places_nothing_ever_fits() {
    let limiter = RateLimiter::new(InFlight::new(0), LocalStore::new());
    let refused = hold(&limiter, "bob", 1).unwrap_err();
    assert!(refused.never_fits() && refused.retry_after().is_none());
    assert!(hold(&limiter, "bob", 0).is_ok());
}

#[test]
fn a_time_that_no_renewal_can_keep_is_refused_by_value() {
    let of = |time| InFlight::new(5).try_held_at_most(time).map(drop);
    let short = Duration::from_micros(99_999);
    let error = of(short).unwrap_err();
    assert!(matches!(error, ConfigError::HeldTooShort { .. }));
    assert!(error.to_string().contains("99.999ms"), "{error}");
    assert!(of(Duration::from_millis(100)).is_ok());
    let long = Duration::from_micros((1 << 50) + 1);
    assert!(matches!(of(long), Err(ConfigError::PeriodTooLong { .. })));
    assert!(of(Duration::from_micros(1 << 50)).is_ok());
    assert!(of(Duration::MAX).is_err());
    assert!(InFlight::new(5).try_named("a b").is_err());
    let named = InFlight::new(7)
        .held_at_most(Duration::from_secs(1))
        .named("x");
    let limiter = RateLimiter::new(named, LocalStore::<_, ()>::new());
    let peeked = limiter.peek(&()).now();
    assert_eq!((peeked.policy(), peeked.limit()), ("x", 7));
}

/// A server on a port of its own, with this limit, whose handlers stream, or go on after an
/// upgrade.
struct Served {
    address: SocketAddr,
    limit: RateLimitLayer<InFlight, Places, Global>,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    fn start(limit: RateLimitLayer<InFlight, Places, Global>) -> Self {
        let app: Router = Router::new()
            .route(
                "/endless",
                get(async || Body::new(Endless(Mutex::new(None)))),
            )
            .route("/echo", get(upgraded))
            .layer(limit.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async { axum::serve(listener, app).await });
        Self {
            address,
            limit,
            _runtime: runtime,
        }
    }

    /// Sends a request, and reads until the head of its response is there.
    fn ask(&self, path: &str, fields: &str) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        (stream, String::from_utf8(head).unwrap())
    }

    /// Waits until so many are in flight.
    fn comes_to(&self, requests: u64) {
        let since = Instant::now();
        while taken(&self.limit) != requests {
            assert!(
                since.elapsed() < Duration::from_secs(30),
                "{}",
                taken(&self.limit)
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A body that sends a piece, and then waits for ever.
struct Endless(Mutex<Option<()>>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        match self.0.lock().unwrap().replace(()) {
            None => Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from("piece"))))),
            Some(()) => Poll::Pending,
        }
    }
}

/// Answers 101, and then reads what the caller sends until that closes; in flight all the while.
async fn upgraded(Extension(hold): Extension<Hold>, request: Request<Body>) -> Response {
    tokio::spawn(async move {
        let upgraded = hyper::upgrade::on(request).await.unwrap();
        let mut socket = hyper_util::rt::TokioIo::new(upgraded);
        let _ = tokio::io::copy(&mut socket, &mut tokio::io::sink()).await;
        drop(hold);
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "echo");
    response.body(Body::empty()).unwrap()
}

#[test]
fn over_a_socket_a_client_who_hangs_up_in_the_middle_of_a_body_gives_its_place_back() {
    let server = Served::start(layer(2));
    let clients = [(); 2].map(|()| server.ask("/endless", ""));
    assert!(
        clients
            .iter()
            .all(|(_, head)| head.starts_with("HTTP/1.1 200"))
    );
    let (_, refused) = server.ask("/endless", "");
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    server.comes_to(2);
    let [(first, _), _second] = clients;
    drop(first);
    server.comes_to(1);
    let (_third, head) = server.ask("/endless", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[test]
fn an_upgraded_connection_is_in_flight_until_it_closes() {
    let server = Served::start(layer(1));
    let upgrade = "Connection: Upgrade\r\nUpgrade: echo\r\n";
    let (mut socket, head) = server.ask("/echo", upgrade);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    socket.write_all(b"hello").unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(taken(&server.limit), 1);
    assert!(server.ask("/echo", upgrade).1.starts_with("HTTP/1.1 429"));
    drop(socket);
    server.comes_to(0);
    let (_socket, head) = server.ask("/echo", upgrade);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
}
