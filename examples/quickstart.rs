//! A limit in front of an axum app, seen from its caller: five requests at once, then one every
//! five seconds.
//!
//! ```text
//! cargo run --example quickstart            # ends with Ctrl-C; try it by hand meanwhile
//! cargo run --example quickstart -- --once  # ends after the table
//! ```

use std::{error::Error, net::SocketAddr, time::Duration};

use axum::{Router, body::Body, routing::get};
use http::{HeaderMap, Uri};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::net::TcpListener;
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The limit: an algorithm, a store, a key.
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::one_every(Duration::from_secs(5))).burst(5),
        LocalStore::new(),
        PeerIp::new(),
    );
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limit)
        // `PeerIp` needs the caller's address; this makes axum provide it.
        .into_make_service_with_connect_info::<SocketAddr>();

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    send_a_burst(format!("http://{address}/").parse()?).await?;
    if std::env::args().any(|argument| argument == "--once") {
        return Ok(());
    }
    println!("\nStill serving (Ctrl-C ends it). Try: curl -i http://{address}/");
    Ok(server.await??)
}

/// Sends seven real requests, and shows what came back.
async fn send_a_burst(uri: Uri) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    println!("request  status  remaining  retry-after");
    for number in 1..=7 {
        let response = client.get(uri.clone()).await?;
        let status = response.status();
        let remaining = remaining(response.headers()).ok_or("no RateLimit field")?;
        let retry_after = match response.headers().get("retry-after") {
            Some(seconds) => format!("{} s", seconds.to_str()?),
            None => "-".to_owned(),
        };
        println!(
            "{number:>7}  {:>6}  {remaining:>9}  {retry_after:>11}",
            status.as_u16()
        );

        // What this example shows, as a test: it fails if it does not hold.
        let is_admitted = number <= 5;
        assert_eq!(status, if is_admitted { 200 } else { 429 });
        assert_eq!(remaining, 5_u64.saturating_sub(number));
        assert_eq!(retry_after == "-", is_admitted);
    }
    Ok(())
}

/// The `r` of `RateLimit: "token-bucket-1-5s-b5";r=4;t=5`.
fn remaining(headers: &HeaderMap) -> Option<u64> {
    let field = headers.get("ratelimit")?.to_str().ok()?;
    let parameter = field.split(';').find_map(|part| part.strip_prefix("r="));
    parameter?.parse().ok()
}
