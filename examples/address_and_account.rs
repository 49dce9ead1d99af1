//! Two keys in one check: six requests an hour from an address, and three from an account, whatever
//! its address.
//!
//! A request is admitted if both have room; otherwise neither is charged. So an account over its
//! limit takes nothing from other callers behind the same address. A caller without an account is
//! limited by the address alone. (The account is a header here; behind a login, use
//! `FromExtension`.)
//!
//! ```text
//! cargo run --example address_and_account
//! ```

use std::{error::Error, net::SocketAddr};

use axum::{Router, body::Body, routing::get};
use http::{HeaderMap, Request};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::net::TcpListener;
use tollgate::{EachOf, Quota, RateLimitLayer};
use tollgate::{algorithm::FixedWindow, key::Header, key::PeerIp, store::LocalStore};

async fn serve() -> Result<SocketAddr, Box<dyn Error>> {
    let hourly = |units| FixedWindow::new(Quota::per_hour(units)).from_first_request();
    let limit = RateLimitLayer::new(
        EachOf((hourly(6).named("address"), hourly(3).named("account"))),
        LocalStore::new(),
        EachOf((PeerIp::new(), Header::new("x-account").or_skip())),
    );
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit)
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// The status, and what is left of each policy in the response.
async fn ask(server: SocketAddr, account: Option<&str>) -> Result<(u16, String), Box<dyn Error>> {
    let mut request = Request::get(format!("http://{server}/"));
    if let Some(account) = account {
        request = request.header("x-account", account);
    }
    let http = Client::builder(TokioExecutor::new()).build_http();
    let response = http.request(request.body(Body::empty())?).await?;
    let (status, left) = (response.status().as_u16(), left(response.headers())?);
    let account = account.unwrap_or("-");
    println!("{account:<8}  {status:>6}  {left}");
    Ok((status, left))
}

/// The `RateLimit` field without its times: `"address";r=5;t=3600` becomes `address 5`.
fn left(headers: &HeaderMap) -> Result<String, Box<dyn Error>> {
    let mut left = Vec::new();
    for line in headers.get_all("ratelimit") {
        for policy in line.to_str()?.split(", ") {
            let mut parts = policy.split(';');
            let name = parts.next().unwrap_or_default().trim_matches('"');
            let rest = parts.find_map(|part| part.strip_prefix("r="));
            left.push(format!("{name} {}", rest.unwrap_or_default()));
        }
    }
    Ok(left.join(", "))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = serve().await?;
    println!("account   status  left");
    for (account, expected) in [
        (Some("ann"), (200, "address 5, account 2")),
        (Some("ann"), (200, "address 4, account 1")),
        (Some("ann"), (200, "address 3, account 0")),
        // A refusal shows only the policy that refuses, and the address was not charged.
        (Some("ann"), (429, "account 0")),
        (Some("ann"), (429, "account 0")),
        (Some("bob"), (200, "address 2, account 2")),
        (None, (200, "address 1")),
        (None, (200, "address 0")),
        (None, (429, "address 0")),
        (Some("bob"), (429, "address 0")),
    ] {
        let (status, left) = ask(server, account).await?;
        assert_eq!((status, left.as_str()), expected);
    }
    Ok(())
}
