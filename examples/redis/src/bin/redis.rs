//! One limit for two server processes, seen from their caller: five requests at once, whichever
//! server they reach.
//!
//! ```text
//! cargo run -p redis_examples --bin redis            # ends with Ctrl-C; try it by hand meanwhile
//! cargo run -p redis_examples --bin redis -- --once  # ends after the table
//! ```
//!
//! It uses the Redis that `REDIS_URL` names, or starts one that ends with the example. Both servers
//! are processes of this same program.

use std::{env, net::SocketAddr, time::Duration};

use axum::{Router, body::Body, routing::get};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use redis_examples::{Failure, Process, Server};
use tollgate::store::{RedisConnection, RedisStore};
use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::PeerIp};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [server, url, prefix] = &arguments[..] {
        assert_eq!(server, "server");
        return serve(url, prefix).await;
    }
    let (url, _redis) = match env::var("REDIS_URL") {
        Ok(url) => (url, None),
        Err(_) => {
            let redis = Server::start(&[])?;
            (redis.url(), Some(redis))
        }
    };
    // A prefix for this run alone: the Redis may have other buckets.
    let prefix = format!("example-{}", std::process::id());
    let mut servers = Vec::new();
    for name in ["A", "B"] {
        let mut process = Process::start(&["server", &url, &prefix])?;
        servers.push((name, process.line()?, process));
    }
    send_a_burst(&servers).await?;
    if !arguments.contains(&"--once".to_owned()) {
        let [(_, one, _), (_, other, _)] = &servers[..] else {
            unreachable!()
        };
        println!("\nStill serving (Ctrl-C ends it). Try: curl -i http://{one}/ http://{other}/");
        tokio::signal::ctrl_c().await?;
    }
    Ok(())
}

/// A server as in `quickstart`, with another store.
async fn serve(url: &str, prefix: &str) -> Result<(), Failure> {
    let redis = RedisConnection::from_url(url)?;
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::one_every(Duration::from_secs(5))).burst(5),
        RedisStore::builder(redis).prefix(prefix).build(),
        PeerIp::new(),
    );
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limit)
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

/// Sends seven real requests, to one server and the other in turn, and shows what came back.
async fn send_a_burst(servers: &[(&str, String, Process)]) -> Result<(), Failure> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    println!("request  server  status  remaining  retry-after");
    for (number, (name, address, _)) in (1..=7_usize).zip(servers.iter().cycle()) {
        let response = client.get(format!("http://{address}/").parse()?).await?;
        let status = response.status().as_u16();
        let field = response
            .headers()
            .get("ratelimit")
            .ok_or("no RateLimit field")?;
        let mut parameters = field.to_str()?.split(';');
        let remaining = parameters.find_map(|part| part.strip_prefix("r="));
        let remaining: usize = remaining.ok_or("nothing remaining")?.parse()?;
        let retry_after = match response.headers().get("retry-after") {
            Some(seconds) => format!("{} s", seconds.to_str()?),
            None => "-".to_owned(),
        };
        println!("{number:>7}  {name:>6}  {status:>6}  {remaining:>9}  {retry_after:>11}");

        // What this example shows, as a test: it fails if it does not hold.
        let is_admitted = number <= 5;
        assert_eq!(status, if is_admitted { 200 } else { 429 });
        assert_eq!(remaining, 5_usize.saturating_sub(number));
        assert_eq!(retry_after == "-", is_admitted);
    }
    Ok(())
}
