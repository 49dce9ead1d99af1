//! What is held for answers that do not come to their end: the caller hangs up.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::loopback::{comes, serve};
use axum::{Extension, Router, body::Body, routing::get};
use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt, iter, once, pending};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tollgate::{
    End, Hold, LocalRateLimiter, Quota, RateLimitLayer, RateLimiter,
    algorithm::{Settled, SlidingLog},
    key::Global,
    options::WithCost,
    response::Http,
    store::LocalStore,
};

const LONGEST: Duration = Duration::from_secs(10);
/// What a request is thought to cost.
const ESTIMATE: u32 = 50;

type Rule = Settled<SlidingLog>;

/// What is spent does not come back while a test lasts.
fn rule() -> Rule {
    SlidingLog::new(Quota::per_day(1_000)).settled()
}

type Limiter = LocalRateLimiter<Rule, ()>;
type Limit = RateLimitLayer<Rule, LocalStore<Rule, ()>, Global, Http, WithCost<u32>>;

/// A limiter, with the layer that shares its buckets.
fn limited() -> (Limiter, Limit) {
    let store = LocalStore::new();
    let limiter = RateLimiter::new(rule(), store.clone());
    let layer = RateLimitLayer::new(rule(), store, Global).cost(ESTIMATE);
    (limiter, layer)
}

fn charged(limiter: &Limiter) -> u64 {
    1_000 - limiter.peek(&()).now().remaining()
}

/// Waits until so much is charged, with what is held.
async fn is_charged(limiter: &Limiter, units: u64) {
    comes(|| charged(limiter) == units).await;
}

/// Three pieces, a KiB each.
fn pieces() -> impl Stream<Item = Result<Bytes, Infallible>> {
    iter([(); 3].map(|()| Ok(Bytes::from(vec![0; 1_024]))))
}

async fn asked(server: SocketAddr, path: &str, http2: bool) -> http::Response<Incoming> {
    let mut client = Client::builder(TokioExecutor::new());
    let client = client.http2_only(http2).build_http::<Empty<Bytes>>();
    let request = http::Request::get(format!("http://{server}{path}"));
    let answer = client.request(request.body(Empty::new()).unwrap());
    timeout(LONGEST, answer).await.unwrap().unwrap()
}

async fn read(answer: &mut http::Response<Incoming>, bytes: usize) {
    let mut read = 0;
    while read < bytes {
        let frame = timeout(LONGEST, answer.body_mut().frame()).await.unwrap();
        read += frame.unwrap().unwrap().data_ref().unwrap().len();
    }
}

#[tokio::test]
async fn a_body_whose_caller_hangs_up_is_charged_what_its_end_says() {
    for http2 in [false, true] {
        let (limiter, layer) = limited();
        let ends = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&ends);
        let layer = layer.settle_at_end(move |end: &End| {
            seen.lock().unwrap().push((end.kib(), end.is_complete()));
            end.kib() + if end.is_complete() { 0 } else { 10 }
        });
        // There may be more to come.
        let half = async || Body::from_stream(pieces().chain(pending()));
        let app = Router::new()
            .route("/", get(async || Body::from_stream(pieces())))
            .route("/half", get(half))
            .layer(layer);
        let server = serve(app).await;

        let mut answer = asked(server, "/", http2).await;
        read(&mut answer, 3 * 1_024).await;
        is_charged(&limiter, 3).await;

        let mut answer = asked(server, "/half", http2).await;
        read(&mut answer, 3 * 1_024).await;
        // It is still sent.
        assert_eq!(charged(&limiter), 3 + u64::from(ESTIMATE));
        drop(answer);
        is_charged(&limiter, 3 + 13).await;
        assert_eq!(*ends.lock().unwrap(), [(3, true), (3, false)]);
    }
}

#[tokio::test]
async fn a_stream_that_takes_its_hold_along_keeps_the_estimate_if_its_caller_hangs_up() {
    for http2 in [false, true] {
        let (limiter, layer) = limited();
        let (ends, mut end) = mpsc::unbounded_channel();
        let handler = async move |Extension(hold): Extension<Hold>| {
            let (sender, ends_now) = oneshot::channel();
            ends.send(sender).unwrap();
            let settled = once(async move {
                ends_now.await.unwrap();
                drop(hold.settle(3));
                Ok(Bytes::new())
            });
            Body::from_stream(pieces().chain(settled))
        };
        let server = serve(Router::new().route("/", get(handler)).layer(layer)).await;

        let mut answer = asked(server, "/", http2).await;
        let end_it: oneshot::Sender<()> = end.recv().await.unwrap();
        read(&mut answer, 3 * 1_024).await;
        assert_eq!(charged(&limiter), u64::from(ESTIMATE));
        end_it.send(()).unwrap();
        let rest = timeout(LONGEST, answer.into_body().collect()).await;
        assert!(rest.unwrap().unwrap().to_bytes().is_empty());
        assert_eq!(charged(&limiter), 3);

        let mut answer = asked(server, "/", http2).await;
        let mut end_it = end.recv().await.unwrap();
        read(&mut answer, 3 * 1_024).await;
        drop(answer);
        // The stream is dropped.
        timeout(LONGEST, end_it.closed()).await.unwrap();
        assert_eq!(charged(&limiter), 3 + u64::from(ESTIMATE));
    }
}
