//! The client's address behind a proxy: taken from `X-Forwarded-For`, but only if your own proxy
//! wrote it.
//!
//! The server trusts one proxy, 127.0.0.1, and all requests come from there. So each client has its
//! own bucket, and cannot get another one by writing the header itself. The same server with
//! another proxy in its list does not read the header at all.
//!
//! ```text
//! cargo run --example behind_a_proxy
//! ```

use std::{error::Error, net::SocketAddr};

use axum::{Router, body::Body, routing::get};
use http::Request;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::net::TcpListener;
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::ClientIp, store::LocalStore};

/// Serves two requests an hour for each client.
async fn serve(by_client: ClientIp) -> Result<SocketAddr, Box<dyn Error>> {
    let quota = TokenBucket::new(Quota::per_hour(2));
    let limit = RateLimitLayer::new(quota, LocalStore::new(), by_client);
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(limit)
        // The limit must know whether the peer is a proxy; this makes axum provide the peer's
        // address.
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// Acts as the proxy: appends the client's address to the header that the client sent.
async fn send_for(
    client: &str,
    sent: Option<&str>,
    server: SocketAddr,
) -> Result<u16, Box<dyn Error>> {
    let forwarded_for = match sent {
        Some(sent) => format!("{sent}, {client}"),
        None => client.to_owned(),
    };
    let request = Request::get(format!("http://{server}/"))
        .header("x-forwarded-for", &forwarded_for)
        .body(Body::empty())?;
    let http = Client::builder(TokioExecutor::new()).build_http();
    let status = http.request(request).await?.status();
    println!("  X-Forwarded-For: {forwarded_for:<24}  {status}");
    Ok(status.as_u16())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (ann, bob) = ("192.0.2.1", "203.0.113.2");

    println!("127.0.0.1 is trusted:");
    let server = serve(ClientIp::x_forwarded_for(["127.0.0.1"])).await?;
    assert_eq!(send_for(ann, None, server).await?, 200);
    assert_eq!(send_for(ann, None, server).await?, 200);
    assert_eq!(send_for(ann, None, server).await?, 429);
    assert_eq!(send_for(bob, None, server).await?, 200);
    // Ann makes up addresses. They are to the left of hers, where the server does not read.
    for made_up in ["198.51.100.7", "127.0.0.1", "unknown"] {
        assert_eq!(send_for(ann, Some(made_up), server).await?, 429);
    }

    println!("only 10.0.0.0/8 is trusted, so the peer is the client:");
    let server = serve(ClientIp::x_forwarded_for(["10.0.0.0/8"])).await?;
    assert_eq!(send_for(ann, None, server).await?, 200);
    assert_eq!(send_for(bob, None, server).await?, 200);
    assert_eq!(send_for(ann, None, server).await?, 429);
    assert_eq!(send_for(bob, None, server).await?, 429);
    Ok(())
}
