//! Redis dies and comes back: what callers see while a smaller limit in the process decides.
//!
//! ```text
//! cargo run -p redis_examples --bin fallback
//! ```
//!
//! It starts a Redis, which ends with the example. All processes together admit six a day; while
//! Redis is down, each process admits four. Those four are also charged what Redis admits: an
//! outage grants nobody a fresh burst.

use std::{net::SocketAddr, time::Duration};

use axum::{Extension, Router, body::Body, routing::get};
use http::Response;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redis_examples::{Failure, Server};
use tollgate::store::{LocalStore, RedisConnection, RedisStore};
use tollgate::{Decision, Quota, RateLimitLayer, RateLimiter};
use tollgate::{algorithm::TokenBucket, key::PeerIp};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut redis = Server::start(&[])?;
    let caller = Caller {
        client: Client::builder(TokioExecutor::new()).build_http(),
        address: serve(&redis.url()).await?,
    };

    println!("redis   status  the limit that decided  remaining");
    for remaining in [5, 4, 3] {
        let seen = caller.ask("is up").await?;
        assert_eq!(seen, (200, "together".to_owned(), remaining));
    }

    redis.stop()?;
    let seen = caller.ask("is down").await?;
    assert_eq!(
        seen,
        (200, "alone".to_owned(), 0),
        "three of four were used"
    );
    let seen = caller.ask("is down").await?;
    assert_eq!(seen, (429, "alone".to_owned(), 0));

    redis.start_again()?;
    // The store reconnects within half a second.
    let back = loop {
        let seen = caller.ask("is back").await?;
        if seen.1 == "together" {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(back, (200, "together".to_owned(), 5), "it came back empty");
    Ok(())
}

/// A server with one limit for all servers, and a smaller one for itself.
async fn serve(url: &str) -> Result<SocketAddr, Failure> {
    let redis = RedisConnection::from_url(url)?;
    let day = |units| TokenBucket::new(Quota::per_day(units));
    let alone = RateLimiter::new(day(4).named("alone"), LocalStore::new());
    let limit = RateLimitLayer::new(
        day(6).named("together"),
        RedisStore::new(redis),
        PeerIp::new(),
    )
    .on_store_error(alone)
    .expose_decision();
    let app = Router::new()
        .route("/", get(hello))
        .layer(limit)
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// A handler can see which of the two limits has decided.
async fn hello(Extension(decision): Extension<Decision>) -> &'static str {
    assert_eq!(decision.is_degraded(), decision.policy() == "alone");
    "hello\n"
}

struct Caller {
    client: Client<HttpConnector, Body>,
    address: SocketAddr,
}

impl Caller {
    /// The status, the limit that decided, and what it has left.
    async fn ask(&self, redis: &str) -> Result<(u16, String, u64), Failure> {
        let response = self
            .client
            .get(format!("http://{}/", self.address).parse()?);
        let response = response.await?;
        let (status, (policy, remaining)) = (response.status().as_u16(), told(&response)?);
        println!("{redis:<7} {status:>6}  {policy:<22}  {remaining:>9}");
        Ok((status, policy, remaining))
    }
}

/// Reads `RateLimit: "together";r=5;t=1`.
fn told<B>(response: &Response<B>) -> Result<(String, u64), Failure> {
    let field = response
        .headers()
        .get("ratelimit")
        .ok_or("no RateLimit field")?;
    let mut parts = field.to_str()?.split(';');
    let policy = parts
        .next()
        .unwrap_or_default()
        .trim_matches('"')
        .to_owned();
    let remaining = parts.find_map(|part| part.strip_prefix("r="));
    Ok((policy, remaining.ok_or("nothing remaining")?.parse()?))
}
