//! The client's side: a client of a metered API that must not call more often than planned.
//!
//! The layer wraps the HTTP client. Calls beyond the rate wait for their turn, a tenth of a second
//! apart. If the queue is full, a call fails at once in this process, and its error says how long
//! to wait. The server never sees it.
//!
//! ```text
//! cargo run --example client_side
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use axum::{Router, body::Body, routing::get};
use http::Request;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::algorithm::LeakyBucket;
use tollgate::response::{AsError, Refused};
use tollgate::{Decision, Quota, RateLimitLayer, key::Global, store::LocalStore};
use tower::{Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // The metered API: it counts what it will send a bill for.
    let billed = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&billed);
    let count = move || async move { counter.fetch_add(1, SeqCst).to_string() };
    let api = Router::new().route("/", get(count));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, api).await });

    // The client: at most ten calls a second, with room for six.
    let plan = LeakyBucket::new(Quota::per_second(10)).capacity(6).queue();
    let limit = RateLimitLayer::new(plan, LocalStore::new(), Global).respond_with(AsError::new());
    let http = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let mut http = ServiceBuilder::new().layer(limit).service(http);

    let start = Instant::now();
    let mut calls = JoinSet::new();
    for number in 1..=9 {
        let request = Request::get(&uri).body(Body::empty())?;
        let call = http.ready().await?.call(request);
        calls.spawn(async move { (number, call.await) });
    }
    let (mut passed, mut refused) = (0, 0);
    while let Some(call) = calls.join_next().await {
        let (number, answer) = call?;
        let at = start.elapsed();
        match answer {
            Ok(response) => {
                passed += 1;
                println!("{at:>7.0?}  call {number}: {}", response.status());
                // The n-th call leaves n − 1 tenths after the first one, never earlier.
                assert!(at >= Duration::from_millis(100) * (passed - 1));
            }
            Err(error) => {
                refused += 1;
                let error = error.downcast::<Refused>()?;
                println!("{at:>7.0?}  call {number}: {error}");
                assert!(error.decision().and_then(Decision::retry_after).is_some());
            }
        }
    }
    println!("billed: {}", billed.load(SeqCst));
    assert_eq!(billed.load(SeqCst), u64::from(passed));
    // If the machine stalls for a tenth of a second, one more call finds room.
    assert!(passed >= 6 && passed + refused == 9);
    Ok(())
}
