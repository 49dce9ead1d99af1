//! A limit in front of a real axum server, seen over HTTP/1.1 and HTTP/2.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::loopback::{Http1, Http2, hello, limit, lines, serve};
use axum::{
    Extension, Router,
    body::Body,
    extract::Request,
    middleware::{self, Next},
    routing::get,
};
use http::{Method, Response};
use tokio::task::JoinSet;
use tollgate::{
    Decision, Quota, RateLimitLayer, RateLimiter,
    algorithm::*,
    key::PeerIp,
    response::{Fields, Http},
    store::LocalStore,
};
use tollgate_algorithms::for_every_algorithm;

const POLICY: &str = "ratelimit-policy";

fn hourly(units: u64) -> TokenBucket {
    TokenBucket::new(Quota::per_hour(units)).named("hourly")
}

#[tokio::test]
async fn a_burst_over_http_1_gets_the_limit_and_then_the_wait() {
    let server = serve(hello().layer(limit(hourly(5), PeerIp::new()))).await;
    for number in 1..=8_u64 {
        // A new connection is no new caller.
        let answer = Http1::connect(server).await.get("/").await;
        let left = 5_u64.saturating_sub(number);
        assert!(lines(&answer, "ratelimit")[0].starts_with(&format!("\"hourly\";r={left};t=")));
        assert_eq!(lines(&answer, POLICY), ["\"hourly\";q=5;w=3600"]);
        if number <= 5 {
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.body(), "hello");
            assert!(!answer.headers().contains_key("retry-after"));
        } else {
            assert_eq!(answer.status(), 429);
            assert_eq!(lines(&answer, "retry-after"), ["720"]);
            assert_eq!(lines(&answer, "cache-control"), ["no-store"]);
            assert_eq!(lines(&answer, "content-type"), ["application/problem+json"]);
            let length = answer.body().len().to_string();
            assert_eq!(lines(&answer, "content-length"), [length]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_at_once_on_one_connection_get_exactly_the_limit() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let handler = get(async move || {
        count.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    });
    let app = Router::new()
        .route("/", handler)
        .layer(limit(hourly(37), PeerIp::new()));
    let client = Http2::connect(serve(app).await).await;
    let mut streams = JoinSet::new();
    for _ in 0..100 {
        let mut stream = client.clone();
        streams.spawn(async move { stream.get("/").await.status().as_u16() });
    }
    let statuses = streams.join_all().await;
    let with = |status| statuses.iter().filter(|had| **had == status).count();
    assert_eq!((with(200), with(429)), (37, 63));
    assert_eq!(reached.load(Ordering::SeqCst), 37);
}

/// The same for an algorithm whose time is turned by hand, to the second that is told and no
/// further.
async fn retry_after_is_kept_by<A: KeyLimit>(name: &str, algorithm: A) {
    let (clock, store) = crate::support::by_hand();
    clock.advance(Duration::from_micros(86_400_123_456));
    let app = hello().layer(RateLimitLayer::new(algorithm, store, PeerIp::new()));
    let mut client = Http1::connect(serve(app).await).await;
    for _ in 0..20 {
        let mut answer = client.get("/").await;
        while answer.status() == 200 {
            clock.advance(Duration::from_micros(7_001));
            answer = client.get("/").await;
        }
        let wait: u64 = lines(&answer, "retry-after")[0].parse().unwrap();
        assert!((1..=10).contains(&wait), "{name}: {wait}");
        clock.advance(Duration::from_secs(wait));
        assert_eq!(client.status("/").await, 200, "{name}: after {wait}");
    }
}

#[tokio::test]
async fn every_algorithm_keeps_the_promise_of_retry_after() {
    let period = Duration::from_millis(2_500);
    let (quota, precision) = (Quota::new(3, period), period / 5);
    // Nobody waits in a queue of one, and nobody for longer than this, by the real clock.
    let (burst, interval) = (1, Duration::from_millis(20));
    for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
        retry_after_is_kept_by(name, rule).await
    });
    retry_after_is_kept_by("a pair", (Gcra::new(quota), SlidingLog::new(quota))).await;
}

#[tokio::test]
async fn a_refused_head_has_no_body_and_the_length_of_the_one_that_get_has() {
    let server = serve(hello().layer(limit(hourly(0), PeerIp::new()))).await;
    let get = Http1::connect(server).await.get("/").await;
    assert_eq!(get.status(), 429);
    let request = |uri: &str| {
        let request = Request::builder().method(Method::HEAD);
        request.uri(uri).body(()).unwrap()
    };
    let (mut http1, mut http2) = (Http1::connect(server).await, Http2::connect(server).await);
    let one = http1.send(request("/")).await;
    let two = http2.send(request("http://localhost/")).await;
    let length = get.body().len().to_string();
    for head in [one, two] {
        assert_eq!((head.status().as_u16(), head.body().len()), (429, 0));
        assert_eq!(lines(&head, "content-length"), [&*length]);
        assert_eq!(lines(&head, "content-type"), ["application/problem+json"]);
    }
    // Nothing of a body is left on the connection.
    assert_eq!(http1.status("/").await, 429);
}

#[tokio::test]
async fn two_layers_keep_both_lines_and_the_longer_wait() {
    let inner = Gcra::new(Quota::per_hour(1)).named("inner");
    let outer = Gcra::new(Quota::per_day(2)).named("outer");
    let app = hello()
        .layer(limit(inner, PeerIp::new()))
        .layer(limit(outer, PeerIp::new()));
    let mut client = Http1::connect(serve(app).await).await;
    let policies = ["\"inner\";q=1;w=3600", "\"outer\";q=2;w=86400"];

    // The second one the outer layer admits and charges, and the inner one refuses. Who comes back
    // when the inner layer says so would be refused by the outer one.
    for (status, left, wait) in [(200, 1, &[][..]), (429, 0, &["43200"])] {
        let answer = client.get("/").await;
        assert_eq!(answer.status(), status);
        assert_eq!(lines(&answer, POLICY), policies);
        let outer = format!("\"outer\";r={left};t=43200");
        assert_eq!(
            lines(&answer, "ratelimit"),
            ["\"inner\";r=0;t=3600", &outer]
        );
        assert_eq!(lines(&answer, "retry-after"), wait);
    }
    // The outer layer refuses it, the inner one never sees it.
    let by_outer = client.get("/").await;
    assert_eq!(lines(&by_outer, POLICY), ["\"outer\";q=2;w=86400"]);
    assert_eq!(lines(&by_outer, "retry-after"), ["43200"]);
}

#[tokio::test]
async fn a_handler_that_renders_a_decision_of_the_layer_does_not_make_two_lines_unless_it_adds_them()
 {
    let limited = limit(hourly(9), PeerIp::new()).expose_decision();
    let limiter = limited.limiter().clone();
    let checked = move || {
        let limiter = limiter.clone();
        async move { limiter.check(&IpAddr::from([127, 0, 0, 1])).now() }
    };
    fn response(decision: Decision) -> Response<Body> {
        Http::new().response(&decision)
    }
    let rendered = |Extension(decision): Extension<Decision>| async move { response(decision) };
    let fields = |Extension(decision): Extension<Decision>| async move {
        let mut response = Response::new(Body::from("hello"));
        Http::new().add_fields(&decision, response.headers_mut());
        response
    };
    let check_again = checked.clone();
    let again = move || async move { response(check_again().await) };
    let silent = move || async move {
        let silent = Http::new().fields(Fields::Off);
        silent.response::<Body>(&checked().await)
    };
    let other = Gcra::new(Quota::per_hour(1)).named("other");
    let other = RateLimiter::new(other, LocalStore::<_, IpAddr>::new());
    let of_another = move || {
        let other = other.clone();
        async move { response(other.check(&IpAddr::from([127, 0, 0, 1])).now()) }
    };
    let app = Router::new()
        .route("/rendered", get(rendered))
        .route("/fields", get(fields))
        .route("/again", get(again))
        .route("/silent", get(silent))
        .route("/of-another", get(of_another))
        .layer(limited);
    let mut client = Http1::connect(serve(app).await).await;
    let (one, both) = (
        ["\"hourly\";q=9;w=3600"].as_slice(),
        ["\"other\";q=1;w=3600", "\"hourly\";q=9;w=3600"],
    );
    let (twice, other) = ([one[0], one[0]], "\"other\";r=0;t=3600");
    for (path, policies, rates) in [
        ("/rendered", one, ["\"hourly\";r=8;t=400"].as_slice()),
        ("/fields", &twice, &["\"hourly\";r=7;t=400"; 2]),
        // What the handler says stands: it asked last.
        ("/again", one, &["\"hourly\";r=5;t=400"]),
        ("/silent", one, &["\"hourly\";r=4;t=400"]),
        ("/of-another", &both, &[other, "\"hourly\";r=2;t=400"]),
        ("/of-another", &both, &[other, "\"hourly\";r=1;t=400"]),
        // The layer admits it, the handler refuses it.
        ("/again", one, &["\"hourly\";r=0;t=400"]),
    ] {
        let answer = client.get(path).await;
        assert_eq!(lines(&answer, POLICY), policies, "{path}");
        assert_eq!(lines(&answer, "ratelimit"), rates, "{path}");
    }
}

#[tokio::test]
async fn an_outer_layer_reads_the_decision_in_a_refusal_only() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let outer = middleware::from_fn(move |request: Request, next: Next| {
        let log = Arc::clone(&log);
        async move {
            let response = next.run(request).await;
            let decision = response.extensions().get::<Decision>();
            let admitted = decision.map(Decision::is_admitted);
            log.lock().unwrap().push(admitted);
            response
        }
    });
    let app = hello().layer(limit(hourly(1), PeerIp::new())).layer(outer);
    let mut client = Http1::connect(serve(app).await).await;
    for expected in [200, 429] {
        assert_eq!(client.status("/").await, expected);
    }
    assert_eq!(*seen.lock().unwrap(), [None, Some(false)]);
}
