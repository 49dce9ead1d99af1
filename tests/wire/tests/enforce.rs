//! Callers over HTTP and gRPC do not notice a limit that is not enforced, and are refused as soon
//! as it is.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::loopback::{Http1, lines, serve};
use axum::{Router, routing::get};
use http::Request;
use tokio::net::TcpListener;
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::FixedWindow,
    key::{Global, PeerIp},
    store::LocalStore,
};
use tonic::{
    Code,
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

fn one_a_day() -> FixedWindow {
    FixedWindow::new(Quota::per_day(1)).from_first_request()
}

#[tokio::test]
async fn an_http_caller_sees_no_limit_until_it_is_enforced() {
    let is_on = Arc::new(AtomicBool::new(false));
    let read = Arc::clone(&is_on);
    let limit = RateLimitLayer::new(one_a_day(), LocalStore::new(), Global)
        .enforce(move |_: &axum::extract::Request, _: Option<&()>| read.load(Ordering::Relaxed));
    let server = serve(
        Router::new()
            .route("/", get(|| async { "hello" }))
            .layer(limit),
    )
    .await;
    let mut client = Http1::connect(server).await;
    for _ in 0..3 {
        let answer = client.get("/").await;
        assert_eq!(
            (answer.status().as_u16(), &answer.body()[..]),
            (200, &b"hello"[..])
        );
        for field in ["ratelimit", "ratelimit-policy", "retry-after"] {
            assert!(lines(&answer, field).is_empty(), "{field}");
        }
    }
    is_on.store(true, Ordering::Relaxed);
    let refused = client.get("/").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(lines(&refused, "ratelimit").len(), 1);
}

#[tokio::test]
async fn a_grpc_caller_sees_no_limit_until_it_is_enforced() {
    let is_on = Arc::new(AtomicBool::new(false));
    let read = Arc::clone(&is_on);
    let limit = RateLimitLayer::new(one_a_day(), LocalStore::new(), PeerIp::new()).enforce(
        move |_: &Request<tonic::body::Body>, key: Option<&IpAddr>| {
            key.is_some_and(IpAddr::is_loopback) && read.load(Ordering::Relaxed)
        },
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(limit).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let endpoint = endpoint.timeout(Duration::from_secs(10));
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    for _ in 0..3 {
        let answer = client.check(HealthCheckRequest::default()).await.unwrap();
        assert!(answer.metadata().get("ratelimit").is_none());
    }
    is_on.store(true, Ordering::Relaxed);
    let refused = client
        .check(HealthCheckRequest::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
}
