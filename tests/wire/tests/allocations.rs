//! What an admitted request costs on the heap: nothing, unless its caller is told something.

use std::{convert::Infallible, future::Ready, net::SocketAddr, sync::mpsc, time::Duration};

#[path = "../../support/counting.rs"]
mod counting;
#[path = "../../support/ready.rs"]
mod ready;

use axum::{
    Router,
    extract::{ConnectInfo, MatchedPath},
    routing::get,
};
use bytes::Bytes;
use counting::CALLS;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use ready::ready;
use tollgate::{
    EachOf, Quota, RateLimit, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::*,
    choice::{Reloadable, by_request},
    clock::ManualClock,
    key::{ClientIp, Global, Header, KeyExtractor, MatchedRoute, PeerIp},
    observe::Event,
    response::{Fields, Grpc, Http},
    store::{LocalBuckets, LocalStore},
};
use tollgate_algorithms::for_every_algorithm;
use tower::{Layer, Service, ServiceExt, service_fn, util::ServiceFn};

type Body = Full<Bytes>;
type Answer = Ready<Result<Response<Body>, Infallible>>;

/// Answers at once, from its stack.
fn hello(_: Request<()>) -> Answer {
    std::future::ready(Ok(Response::new(Body::new(Bytes::from_static(b"hello")))))
}

/// As many as any algorithm needs to have seen everything that it keeps.
const UNTIL_STEADY: usize = 200;
const COUNTED: usize = 1_000;

/// A store whose clock is set by hand.
fn store<L: LocalBuckets<K>, K>() -> (ManualClock, LocalStore<L, K, ManualClock>) {
    let clock = ManualClock::at(Timestamp::from_micros(5));
    (clock.clone(), LocalStore::builder().clock(clock).build())
}

/// The most that one of many calls allocates, one each second; the requests were there before.
fn most<S>(clock: &ManualClock, service: &mut S, request: impl Fn() -> Request<()>) -> usize
where
    S: Service<Request<()>, Response = Response<Body>, Error = Infallible>,
{
    let requests: Vec<_> = (0..UNTIL_STEADY + COUNTED).map(|_| request()).collect();
    let mut most = 0;
    for (number, request) in requests.into_iter().enumerate() {
        clock.advance(Duration::from_secs(1));
        let before = CALLS.get();
        let Ok(response) = ready(service.call(request));
        let allocated = CALLS.get() - before;
        assert_eq!(response.status(), 200);
        if number >= UNTIL_STEADY {
            most = most.max(allocated);
        }
    }
    most
}

type Hello = ServiceFn<fn(Request<()>) -> Answer>;
type Limited<C, L, K, F> = RateLimit<Hello, C, LocalStore<L, K, ManualClock>, F>;

/// The same of a service that answers at once, behind a limit that tells nobody anything.
fn most_of<C, L, K, F>(choice: C, key: F, request: impl Fn() -> Request<()>) -> usize
where
    C: Clone,
    L: LocalBuckets<K>,
    F: Clone,
    Limited<C, L, K, F>: Service<Request<()>, Response = Response<Body>, Error = Infallible>,
{
    let (clock, store) = store();
    let off = Http::new().fields(Fields::Off);
    let layer = RateLimitLayer::new(choice, store, key).respond_with(off);
    let mut service = layer.layer(service_fn(hello as fn(_) -> _));
    most(&clock, &mut service, request)
}

/// One a second is always admitted, and always has something to forget.
fn ten() -> Quota {
    Quota::new(10, Duration::from_secs(10))
}

fn gcra() -> Gcra {
    Gcra::new(ten())
}

fn from_peer() -> Request<()> {
    let mut request = Request::get("/users/7").body(()).unwrap();
    let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711)));
    request.extensions_mut().insert(peer);
    request
}

fn with_header(name: &'static str, value: &str) -> Request<()> {
    let mut request = from_peer();
    let value = HeaderValue::from_str(value).unwrap();
    let name = HeaderName::from_static(name);
    request.headers_mut().insert(name, value);
    request
}

fn with_key() -> Request<()> {
    with_header("x-api-key", "sk-live-12345678")
}

/// What only a router can make.
fn matched_path() -> MatchedPath {
    let (sender, receiver) = mpsc::channel();
    let handler = get(async move |path: MatchedPath| drop(sender.send(path)));
    let app: Router = Router::new().route("/users/{id}", handler);
    let request = Request::get("/users/7").body(axum::body::Body::empty());
    ready(app.oneshot(request.unwrap())).unwrap();
    receiver.recv().unwrap()
}

#[test]
fn the_allocator_counts() {
    let before = CALLS.get();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(CALLS.get() - before, 1);
}

#[test]
fn no_algorithm_allocates_for_a_known_key() {
    // Twice what comes: some look back a little further than their window.
    let (quota, burst) = (Quota::new(20, ten().period()), 10);
    let (precision, interval) = (Duration::from_secs(1), Duration::from_secs(1));
    for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
        assert_eq!(most_of(rule, PeerIp::new(), from_peer), 0, "{name}")
    });
}

#[test]
fn no_tuple_of_algorithms_allocates_for_a_known_key() {
    let hourly = FixedWindow::new(Quota::per_hour(10_000));
    let pair = (Gcra::new(ten()), hourly.clone());
    assert_eq!(most_of(pair, PeerIp::new(), from_peer), 0);
    let triple = (TokenBucket::new(ten()), SlidingLog::new(ten()), hourly);
    assert_eq!(most_of(triple, PeerIp::new(), from_peer), 0);
}

#[test]
fn no_key_is_found_with_an_allocation() {
    assert_eq!(most_of(gcra(), Global, from_peer), 0);
    assert_eq!(most_of(gcra(), PeerIp::new(), from_peer), 0);
    for length in [0, 1, 62, 63, 5_000] {
        let value = "k".repeat(length);
        let by = Header::new("x-api-key");
        assert_eq!(most_of(gcra(), by, || with_header("x-api-key", &value)), 0);
    }
    let by = ClientIp::x_forwarded_for(["192.0.2.0/24"]);
    let hops = || with_header("x-forwarded-for", "6.6.6.6, 198.51.100.7, 192.0.2.3");
    assert_eq!(most_of(gcra(), by, hops), 0);
}

#[test]
fn a_route_and_a_tuple_of_keys_are_found_without_an_allocation() {
    let route = matched_path();
    let routed = || {
        let mut request = with_key();
        request.extensions_mut().insert(route.clone());
        request
    };
    let found = MatchedRoute::new().extract(&routed()).unwrap();
    assert_eq!(found.unwrap().pattern(), Some("/users/{id}"));
    assert_eq!(most_of(gcra(), MatchedRoute::new(), routed), 0);
    let by = (PeerIp::new(), MatchedRoute::new());
    assert_eq!(most_of(gcra(), by, routed), 0);
    let by = (Header::new("x-api-key"), PeerIp::new(), MatchedRoute::new());
    assert_eq!(most_of(gcra(), by, routed), 0);
}

#[test]
fn no_choice_of_numbers_allocates_for_a_known_key() {
    let [one, other] = [ten(), Quota::new(20, ten().period())];
    let chosen = by_request(move |request: &Request<()>| {
        let is_other = request.headers().len() > 1;
        let quota = if is_other { other } else { one };
        Gcra::new(quota).named("api")
    });
    assert_eq!(most_of(chosen, PeerIp::new(), with_key), 0);
    let plans = [one, other].map(|quota| Gcra::new(quota).named("api"));
    let chosen = by_request(move |request: &Request<()>| {
        plans[usize::from(request.headers().len() > 1)].clone()
    });
    assert_eq!(most_of(chosen, PeerIp::new(), with_key), 0);

    let reloadable = Reloadable::new(Gcra::new(one).named("api"));
    assert_eq!(most_of(reloadable.clone(), PeerIp::new(), with_key), 0);
    reloadable.replace(Gcra::new(other).named("api")).unwrap();
    assert_eq!(most_of(reloadable.clone(), PeerIp::new(), with_key), 0);
    let both = by_request(move |_: &Request<()>| Gcra::clone(&reloadable.in_force()));
    assert_eq!(most_of(both, PeerIp::new(), with_key), 0);
}

#[test]
fn several_keys_are_decided_about_without_an_allocation() {
    let each = EachOf((Gcra::new(ten()), FixedWindow::new(ten())));
    let keys = || EachOf((PeerIp::new(), Header::new("x-api-key").or_skip()));
    assert_eq!(most_of(each.clone(), keys(), with_key), 0);
    let absent = EachOf((PeerIp::new(), Header::new("x-tenant").or_skip()));
    assert_eq!(most_of(each.clone(), absent, with_key), 0);
    let chosen = by_request(move |_: &Request<()>| each.clone());
    assert_eq!(most_of(chosen, keys(), with_key), 0);
}

#[test]
fn an_observer_that_does_not_read_the_key_of_a_limiter_s_call_allocates_nothing() {
    let seen = std::cell::Cell::new(0);
    let allocated = |reads: bool| {
        let limiter = RateLimiter::new(Gcra::new(ten()), LocalStore::new());
        let limiter = limiter.observe(|event: &Event<'_, String>| {
            let key = if reads { event.key() } else { None };
            seen.set(seen.get() + key.map_or(1, String::len));
        });
        assert!(limiter.check("bob").now().is_admitted());
        let before = CALLS.get();
        assert!(limiter.check("bob").now().is_admitted());
        CALLS.get() - before
    };
    assert_eq!([false, true].map(allocated), [0, 1]);
    assert_eq!(seen.get(), 8);
}

/// One for the values, and two for the first entries of a map of header fields.
const TOLD: usize = 3;

#[test]
fn the_fields_of_draft_11_take_one_allocation_besides_the_map() {
    let (clock, store) = store();
    let layer = RateLimitLayer::new(gcra(), store, PeerIp::new());
    let empty = most(&clock, &mut layer.layer(service_fn(hello)), from_peer);
    let mut roomy = layer.layer(service_fn(|request| {
        let Ok(mut response) = hello(request).into_inner();
        let headers = response.headers_mut();
        *headers = HeaderMap::with_capacity(8);
        std::future::ready(Ok::<_, Infallible>(response))
    }));
    let before = CALLS.get();
    drop(HeaderMap::<HeaderValue>::with_capacity(8));
    let of_map = CALLS.get() - before;
    let with_room = most(&clock, &mut roomy, from_peer) - of_map;
    println!("draft 11: {empty} allocations, {with_room} of them for the values");
    assert_eq!((empty, with_room), (TOLD, 1));

    let (clock, store) = self::store();
    let layer = RateLimitLayer::new(gcra(), store, PeerIp::new()).respond_with(Grpc::new());
    let grpc = most(&clock, &mut layer.layer(service_fn(hello)), from_peer);
    assert_eq!(grpc, TOLD);
}
