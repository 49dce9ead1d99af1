//! How often an admitted request of a known key reaches for the heap, and how large the future is.
//!
//! The counter counts by thread, and each measurement stays on its own.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::{IpAddr, SocketAddr},
    pin::pin,
    task::{Context, Poll, Waker},
};

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use http::{Request, Response};
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::{
        Algorithm, FixedWindow, Gcra, LeakyBucket, MinInterval, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    key::{ClientIp, Global, Header, Key, KeyExtractor, MatchedRoute, PeerIp},
    response::{Fields, Http},
    store::LocalStore,
};
use tower::{Layer, Service};

/// Answers with an empty response, which takes no allocation.
#[derive(Debug, Clone, Copy)]
struct Empty;

impl<B> Service<Request<B>> for Empty {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Bytes>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Bytes::new())))
    }
}

const WARM_UP: usize = 200;
const REQUESTS: u64 = 1_000;

fn request() -> Request<()> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    let request = Request::builder().extension(peer);
    request
        .header("x-api-key", "k".repeat(62))
        .body(())
        .unwrap()
}

fn call<S>(service: &mut S, request: Request<()>) -> Response<Bytes>
where
    S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible>,
{
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(service.poll_ready(cx).is_ready());
    let Poll::Ready(Ok(response)) = pin!(service.call(request)).poll(cx) else {
        panic!("a decision in memory is there at once");
    };
    response
}

/// What a thousand admitted requests take from the heap; they are made, and their answers dropped, outside of the count.
fn thousand<S>(mut service: S) -> AllocationInfo
where
    S: Service<Request<()>, Response = Response<Bytes>, Error = Infallible>,
{
    for _ in 0..WARM_UP {
        assert_eq!(call(&mut service, request()).status(), 200);
    }
    let mut requests: Vec<_> = (0..REQUESTS).map(|_| request()).collect();
    let mut responses = Vec::with_capacity(requests.len());
    let taken = measure(|| {
        for request in requests.drain(..) {
            responses.push(call(&mut service, request));
        }
    });
    assert!(responses.iter().all(|response| response.status() == 200));
    taken
}

fn limited<A, K, F>(algorithm: A, key: F, fields: Fields) -> AllocationInfo
where
    A: Algorithm,
    K: Key,
    F: KeyExtractor<Request<()>, Key = K> + Clone,
{
    let limit = RateLimitLayer::new(algorithm, LocalStore::<A, K>::new(), key);
    let limit = limit.respond_with(Http::new().fields(fields));
    thousand(limit.layer(Empty))
}

#[track_caller]
fn assert_none(what: &str, taken: &AllocationInfo) {
    assert_eq!(taken.count_total, 0, "{what}: {taken:?}");
}

const PLENTY: Quota = Quota::per_day(1_000_000);

#[test]
fn no_algorithm_takes_from_the_heap_for_a_key_that_it_knows() {
    use std::time::Duration;

    fn taken(what: &str, algorithm: impl Algorithm) {
        let taken = limited(algorithm, PeerIp::new(), Fields::Off);
        assert_none(what, &taken);
    }
    taken("TokenBucket", TokenBucket::new(PLENTY));
    taken("Gcra", Gcra::new(PLENTY));
    taken("LeakyBucket", LeakyBucket::new(PLENTY));
    taken("FixedWindow", FixedWindow::new(PLENTY));
    let from_first = FixedWindow::new(PLENTY).from_first_request();
    taken("FixedWindow, from the first request", from_first);
    taken("SlidingWindow", SlidingWindow::new(PLENTY));
    let hour = Duration::from_secs(3_600);
    taken("SlidingBuckets", SlidingBuckets::new(PLENTY, hour));
    taken(
        "SlidingBuckets, strict",
        SlidingBuckets::new(PLENTY, hour).strict(),
    );
    let both = (TokenBucket::new(PLENTY), FixedWindow::new(PLENTY));
    taken("a tuple", both.clone());
    taken(
        "three algorithms",
        (both.0, both.1, SlidingWindow::new(PLENTY)),
    );
}

/// A log grows until it has been as long as it ever gets; a cost of 0 is admitted for ever.
#[test]
fn a_log_takes_nothing_once_it_has_its_length() {
    let log = SlidingLog::new(Quota::per_day(150));
    let limit = RateLimitLayer::new(log, LocalStore::new(), PeerIp::new())
        .respond_with(Http::new().fields(Fields::Off))
        .cost(|request: &Request<()>| u32::from(request.uri().path() == "/charged"));
    assert_none("SlidingLog, nothing charged", &thousand(limit.layer(Empty)));

    let quota = Quota::new(150, std::time::Duration::from_micros(150));
    let (clock, store) = tollgate_wire::fresh_store();
    let limit = RateLimitLayer::new(SlidingLog::new(quota), store, PeerIp::new())
        .respond_with(Http::new().fields(Fields::Off));
    let mut service = limit.layer(Empty);
    for _ in 0..WARM_UP {
        call(&mut service, request());
        clock.advance(std::time::Duration::from_micros(1));
    }
    let mut requests: Vec<_> = (0..REQUESTS).map(|_| request()).collect();
    let taken = measure(|| {
        for request in requests.drain(..) {
            assert_eq!(call(&mut service, request).status(), 200);
            clock.advance(std::time::Duration::from_micros(1));
        }
    });
    // The requests are dropped inside of the count, but that gives and does not take.
    assert_none("SlidingLog, full", &taken);
}

#[test]
fn the_least_interval_takes_nothing_when_it_is_over() {
    let interval = std::time::Duration::from_micros(1);
    let (clock, store) = tollgate_wire::fresh_store();
    let limit = RateLimitLayer::new(MinInterval::new(interval), store, PeerIp::new())
        .respond_with(Http::new().fields(Fields::Off));
    let mut service = limit.layer(Empty);
    let mut requests: Vec<_> = (0..REQUESTS).map(|_| request()).collect();
    call(&mut service, request());
    let taken = measure(|| {
        for request in requests.drain(..) {
            clock.advance(interval);
            assert_eq!(call(&mut service, request).status(), 200);
        }
    });
    assert_none("MinInterval", &taken);
}

#[test]
fn no_key_takes_from_the_heap() {
    fn taken<F>(what: &str, key: F)
    where
        F: KeyExtractor<Request<()>> + Clone,
    {
        let taken = limited(TokenBucket::new(PLENTY), key, Fields::Off);
        assert_none(what, &taken);
    }
    taken("Global", Global);
    taken("PeerIp", PeerIp::new());
    taken("ClientIp", ClientIp::x_forwarded_for(["192.0.2.0/24"]));
    taken("Header, of 62 bytes", Header::new("x-api-key"));
    taken("a tuple", (PeerIp::new(), Header::new("x-api-key")));
    taken("MatchedRoute, no route", MatchedRoute::new());
}

/// axum alone makes the path that it matched, so the limit is put around a handler and the path into the request.
#[test]
fn a_matched_route_takes_nothing() {
    use axum::{Router, body::Body, extract::MatchedPath, routing::get};
    use tower::ServiceExt;

    let path = |path: MatchedPath| async { axum::Extension(path) };
    let app = Router::new().route("/users/{id}", get(path));
    let answer = app.oneshot(Request::get("/users/1").body(Body::empty()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let answer = runtime.block_on(answer).unwrap();
    let path = answer.extensions().get::<MatchedPath>().cloned();
    let path = path.expect("the handler has handed it out");

    let limit = RateLimitLayer::new(
        TokenBucket::new(PLENTY),
        LocalStore::new(),
        MatchedRoute::new(),
    );
    let mut service = limit
        .respond_with(Http::new().fields(Fields::Off))
        .layer(Empty);
    let request = || {
        let request = Request::builder().extension(path.clone());
        request.body(()).unwrap()
    };
    call(&mut service, request());
    let mut requests: Vec<_> = (0..REQUESTS).map(|_| request()).collect();
    let taken = measure(|| {
        for request in requests.drain(..) {
            assert_eq!(call(&mut service, request).status(), 200);
        }
    });
    assert_none("MatchedRoute", &taken);
}

/// Both fields' values, and the map of fields that a response without any does not have yet: its table and its entries;
/// a second line of one name would take another.
#[test]
fn the_fields_of_draft_11_take_no_more_than_these() {
    let each = |taken: &AllocationInfo| {
        assert_eq!(taken.count_total % REQUESTS, 0, "{taken:?}");
        taken.count_total / REQUESTS
    };
    let named = |quota, name| TokenBucket::new(quota).named(name);
    let one = limited(named(PLENTY, "api"), PeerIp::new(), Fields::Draft11);
    let both = (named(PLENTY, "api"), named(PLENTY, "daily"));
    let two = limited(both, PeerIp::new(), Fields::Draft11);
    let off = limited(named(PLENTY, "api"), PeerIp::new(), Fields::Off);
    println!(
        "allocations per admitted request, fields off: {}",
        each(&off)
    );
    println!("... with the fields of draft 11: {}", each(&one));
    println!("... with those of two policies: {}", each(&two));
    assert_eq!((each(&off), each(&one)), (0, 4));
    assert!(each(&two) <= 6, "{two:?}");
}

fn future_of<S: Service<Request<()>>>(_: &S) -> usize {
    size_of::<S::Future>()
}

/// It has room for the inner future and for an answer in its place, and for what the answer is to be told.
#[test]
fn the_future_is_not_much_larger_than_an_answer() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(PLENTY),
        LocalStore::<_, IpAddr>::new(),
        PeerIp::new(),
    );
    let [inner, limited] = [future_of(&Empty), future_of(&limit.layer(Empty))];
    let answer = size_of::<Response<Bytes>>();
    println!("an answer has {answer} bytes, the inner future {inner}, the limited one {limited}");
    assert!(limited <= inner + 144, "{limited} bytes");

    let three = (
        TokenBucket::new(PLENTY),
        FixedWindow::new(PLENTY),
        SlidingLog::new(PLENTY),
    );
    let of_three = RateLimitLayer::new(three, LocalStore::<_, IpAddr>::new(), PeerIp::new());
    assert_eq!(future_of(&of_three.layer(Empty)), limited);
}
