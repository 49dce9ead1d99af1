//! What a layer adds to a request, against tower_governor.
//!
//! `cargo bench -p tollgate-benches --bench layer` prints nanoseconds over the bare service, and
//! their ratios: batches of all take turns in one run, and the medians of their times are compared.
//! The inner service answers from a boxed future, as axum's routes do, with the fields of a short
//! text. Below stands what it costs to count requests for Prometheus, to hold units, and to settle
//! them by the head of the response or at the end of its body, which is wrapped for it. `--
//! --profile NAME` serves ten million requests of one kind instead; `TOLLGATE_BENCH_QUICK=1` makes
//! few turns.

use std::{
    convert::Infallible,
    future::Future,
    hint::black_box,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use axum::{
    body::{Body, HttpBody},
    extract::ConnectInfo,
};
use http::{HeaderValue, Request, Response, header};
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::{
    End, Quota, RateLimitLayer,
    algorithm::TokenBucket,
    key::PeerIp,
    observe::Metrics,
    response::{Fields, Http},
    store::LocalStore,
};
use tower::{Layer, Service};
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

const REQUESTS_PER_BATCH: usize = 2_000;
const BATCHES: usize = 1_501;
const PEERS: u32 = 1_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let mut services = services();
    let profiled = arguments
        .iter()
        .position(|argument| argument == "--profile");
    if let Some(name) = profiled.and_then(|flag| arguments.get(flag + 1)) {
        let (_, serve) = (services.iter_mut())
            .find(|(known, _)| known == name)
            .expect("one of the names of the table");
        serve(10_000_000);
        return;
    }
    let mut times: Vec<Vec<f64>> = services.iter().map(|_| Vec::new()).collect();
    let batches = if tollgate_benches::quick() {
        3
    } else {
        BATCHES
    };
    for _ in 0..batches {
        for ((_, serve), times) in services.iter_mut().zip(&mut times) {
            let start = Instant::now();
            serve(REQUESTS_PER_BATCH);
            times.push(start.elapsed().as_nanos() as f64 / REQUESTS_PER_BATCH as f64);
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let over_bare = |index: usize| medians[index] - medians[0];
    println!("bare service: {:.1} ns a request; over it:", medians[0]);
    for (index, (name, _)) in services.iter().enumerate().skip(1) {
        println!("  {name:<24} {:>7.1} ns", over_bare(index));
    }
    let read = services
        .iter()
        .position(|(name, _)| *name == "a body, read");
    let read = read.expect("a row of that name");
    for index in read + 1..services.len() {
        let more = medians[index] - medians[read];
        println!(
            "{:<24} {more:>7.1} ns more than it",
            services[index].0.trim_start()
        );
    }
    println!(
        "headers off, to tower_governor:              {:.2}",
        over_bare(1) / over_bare(2)
    );
    println!(
        "headers on, to tower_governor's use_headers: {:.2}",
        over_bare(3) / over_bare(4)
    );
    println!(
        "counted for Prometheus, headers off:         {:.1} ns more",
        over_bare(5) - over_bare(1)
    );
}

type Serve = Box<dyn FnMut(usize)>;

/// Each by its name; the bare one first, then pairs.
fn services() -> Vec<(&'static str, Serve)> {
    // Never exhausted, and no bucket is ever as good as fresh.
    let algorithm = || {
        TokenBucket::new(Quota::per_hour(3_600))
            .burst(1_000_000_000)
            .named("api")
    };
    let layer = || RateLimitLayer::new(algorithm(), LocalStore::new(), PeerIp::new());
    let held = || RateLimitLayer::new(algorithm().settled(), LocalStore::new(), PeerIp::new());
    let off = layer().respond_with(Http::new().fields(Fields::Off));
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_nanosecond(1).burst_size(1_000_000_000);
    let governor = GovernorLayer::new(Arc::new(config.finish().expect("a valid quota")));
    let mut config = config.use_headers();
    let with_headers = GovernorLayer::new(Arc::new(config.finish().expect("a valid quota")));
    let recorder = PrometheusBuilder::new().install_recorder();
    recorder.expect("the only recorder");
    vec![
        ("bare", serves(Text)),
        ("off", serves(off.clone().layer(Text))),
        ("governor", serves(governor.layer(Text))),
        ("on", serves(layer().layer(Text))),
        ("governor with headers", serves(with_headers.layer(Text))),
        (
            "off, counted",
            serves(off.observe(Metrics::new("api")).layer(Text)),
        ),
        // What it costs to hold, to settle, and to wrap a body: over a layer that does none of it.
        ("a body, read", reads(layer().layer(Word))),
        ("  held for nobody", reads(held().layer(Word))),
        (
            "  settled by its head",
            reads(held().settle(|_: &Response<Body>| 1).layer(Word)),
        ),
        (
            "  settled at its end",
            reads(held().settle_at_end(|end: &End| end.kib()).layer(Word)),
        ),
    ]
}

/// A short text, from a boxed future.
#[derive(Clone)]
struct Text;

impl Service<Request<()>> for Text {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        Box::pin(async {
            let mut response = Response::new(Body::empty());
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, text);
            Ok(response)
        })
    }
}

fn serves<S>(mut service: S) -> Serve
where
    S: Service<Request<()>, Response = Response<Body>, Error: std::fmt::Debug> + 'static,
{
    let peers = peers();
    Box::new(move |requests| {
        let mut cx = Context::from_waker(Waker::noop());
        for peer in peers.iter().cycle().take(requests) {
            let mut request = Request::new(());
            request.extensions_mut().insert(ConnectInfo(*peer));
            assert!(service.poll_ready(&mut cx).is_ready());
            let Poll::Ready(response) = pin!(service.call(request)).poll(&mut cx) else {
                unreachable!("nothing waits here");
            };
            assert_eq!(black_box(response).expect("it never fails").status(), 200);
        }
    })
}

/// A body of one word, from a boxed future.
#[derive(Clone)]
struct Word;

impl Service<Request<()>> for Word {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        Box::pin(async { Ok(Response::new(Body::from("hello"))) })
    }
}

/// As `serves`, but each body is read to its end, as a server does.
fn reads<S, B>(service: S) -> Serve
where
    S: Service<Request<()>, Response = Response<B>, Error: std::fmt::Debug> + 'static,
    B: HttpBody<Error: std::fmt::Debug> + 'static,
{
    let mut service = service;
    let peers = peers();
    Box::new(move |requests| {
        let mut cx = Context::from_waker(Waker::noop());
        for peer in peers.iter().cycle().take(requests) {
            let mut request = Request::new(());
            request.extensions_mut().insert(ConnectInfo(*peer));
            assert!(service.poll_ready(&mut cx).is_ready());
            let Poll::Ready(response) = pin!(service.call(request)).poll(&mut cx) else {
                unreachable!("nothing waits here");
            };
            let response = response.expect("it never fails");
            assert_eq!(response.status(), 200);
            let mut body = pin!(response.into_body());
            while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut cx) {
                black_box(frame.expect("it never fails"));
            }
        }
    })
}

fn peers() -> Vec<SocketAddr> {
    let peer = |peer: u32| SocketAddr::from((peer.to_be_bytes(), 50_000));
    (0..PEERS).map(peer).collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
