//! A limit in front of gRPC servers, seen by real clients over loopback: calls and streams.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpStream, time::timeout};
use tollgate::{
    End, LocalRateLimitLayer, Quota, RateLimitLayer,
    algorithm::{FixedWindow, KeyLimit, TokenBucket},
    key::{Global, PeerIp},
    store::LocalStore,
};
use tonic::{
    Code, Status,
    codegen::tokio_stream,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;
use tonic_web::{GrpcWebClientLayer, GrpcWebLayer};
use tower::Layer;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const LONGEST: Duration = Duration::from_secs(10);

/// Serves tonic's health service behind the layers of a builder; says where.
macro_rules! serve {
    ($server:expr) => {{
        let (_reporter, health) = tonic_health::server::health_reporter();
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = incoming.local_addr().unwrap();
        let server = $server.add_service(health);
        tokio::spawn(server.serve_with_incoming(incoming));
        address
    }};
}

fn none() -> FixedWindow {
    FixedWindow::new(Quota::per_day(0)).named("none")
}

fn three() -> TokenBucket {
    TokenBucket::new(Quota::per_hour(3)).named("three")
}

fn by_peer<A: KeyLimit>(algorithm: A) -> LocalRateLimitLayer<A, std::net::IpAddr, PeerIp> {
    RateLimitLayer::new(algorithm, LocalStore::new(), PeerIp::new())
}

async fn connect(server: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).unwrap();
    endpoint.timeout(LONGEST).connect().await.unwrap()
}

async fn client(server: SocketAddr) -> HealthClient<Channel> {
    HealthClient::new(connect(server).await)
}

fn check() -> HealthCheckRequest {
    HealthCheckRequest::default()
}

#[tokio::test]
async fn a_call_over_the_limit_is_resource_exhausted_with_the_wait_said_three_times() {
    let server = serve!(Server::builder().layer(by_peer(three())));
    let mut client = client(server).await;
    for left in ["2", "1", "0"] {
        let response = client.check(check()).await.unwrap();
        let told = response.metadata().get("ratelimit").unwrap();
        let told = told.to_str().unwrap();
        assert!(told.starts_with(&format!("\"three\";r={left};t=")));
    }
    let refused = client.check(check()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let says = "The rate limit is exceeded. Try again in ";
    assert!(refused.message().starts_with(says));

    let retry = refused.get_details_retry_info().unwrap();
    let delay = retry.retry_delay.unwrap();
    assert!(delay > Duration::from_secs(1_190) && delay <= Duration::from_secs(1_200));
    let quota = refused.get_details_quota_failure().unwrap();
    assert_eq!(quota.violations.len(), 1);
    assert_eq!(quota.violations[0].subject, "three");
    assert_eq!(quota.violations[0].quota_value, 3);

    let field = |name: &str| refused.metadata().get(name).unwrap().to_str().unwrap();
    let number = |name: &str| -> u64 { field(name).parse().unwrap() };
    let pushback = Duration::from_millis(number("grpc-retry-pushback-ms"));
    assert!(pushback >= delay && pushback - delay < Duration::from_millis(1));
    assert!((1_190..=1_200).contains(&number("retry-after")));
    assert_eq!(field("cache-control"), "no-store");
    assert!(field("ratelimit").starts_with("\"three\";r=0;t="));
    assert_eq!(field("ratelimit-policy"), "\"three\";q=3;w=3600");
}

#[tokio::test]
async fn a_call_that_is_settled_at_its_end_keeps_its_message() {
    let (told, sent) = std::sync::mpsc::channel();
    let limit = by_peer(three().settled()).settle_at_end(move |end: &End| {
        told.send(end.bytes()).unwrap();
        1
    });
    let server = serve!(Server::builder().layer(limit));
    let response = client(server).await.check(check()).await.unwrap();
    assert_eq!(response.into_inner().status(), ServingStatus::Serving);
    assert!(sent.recv_timeout(LONGEST).unwrap() > 0);
}

/// What a caller is answered who opens a call, sends no message and does not say that there is
/// none.
async fn answer_to_an_open_call(server: SocketAddr, path: &str) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(server).await.unwrap());
    let handshake = http2::handshake(TokioExecutor::new(), stream);
    let (mut caller, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let silent = tokio_stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::post(format!("http://{server}{path}"));
    let request = request.header("content-type", "application/grpc");
    let call = caller.send_request(request.body(StreamBody::new(silent)).unwrap());
    timeout(LONGEST, call).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_refusal_is_one_frame_of_header_fields_that_ends_the_stream_before_any_message() {
    let tonic = serve!(Server::builder().layer(by_peer(none())));
    let app = axum::Router::new().route(CHECK, axum::routing::post(async || "never"));
    let axum = crate::loopback::serve(app.layer(by_peer(none()))).await;
    for (server, path) in [(tonic, CHECK), (tonic, WATCH), (axum, CHECK)] {
        let refused = answer_to_an_open_call(server, path).await;
        assert_eq!(refused.headers()["grpc-status"], "8");
        assert_eq!(refused.headers()["content-type"], "application/grpc");
        // A frame of data, be it empty, would not have been read yet.
        assert!(refused.body().is_end_stream());
    }
}

#[tokio::test]
async fn each_peer_has_a_bucket_of_its_own_by_what_tonic_says_of_the_connection() {
    let server = serve!(Server::builder().layer(by_peer(three())));
    for local in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        let endpoint = Endpoint::from_shared(format!("http://{server}")).unwrap();
        let endpoint = endpoint.local_address(Some(local.into())).timeout(LONGEST);
        let mut codes = Vec::new();
        for _ in 0..2 {
            // Neither a new connection nor a field of its own helps.
            let mut client = HealthClient::new(endpoint.connect().await.unwrap());
            for spoofed in ["6.6.6.6", "7.7.7.7"] {
                let mut request = tonic::Request::new(check());
                let spoofed = spoofed.parse().unwrap();
                request.metadata_mut().insert("x-forwarded-for", spoofed);
                let answer = client.check(request).await;
                codes.push(answer.map_or_else(|status| status.code(), |_| Code::Ok));
            }
        }
        assert_eq!(codes[..3], [Code::Ok; 3]);
        assert_eq!(codes[3..], [Code::ResourceExhausted]);
    }
}

/// Sends what a browser would: a call with an empty message, over HTTP/1.1.
async fn web_call(server: SocketAddr, content_type: &str, more: &[(&str, &str)]) -> HeaderMap {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let mut request = Request::post(format!("http://{server}{CHECK}"));
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    let message = if content_type.contains("text") {
        Bytes::from_static(b"AAAAAAA=")
    } else {
        Bytes::from_static(&[0; 5])
    };
    let request = request
        .header("content-type", content_type)
        .header("accept", content_type);
    let answer = client.request(request.body(Full::new(message)).unwrap());
    let response = timeout(LONGEST, answer).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(body.is_empty(), head.headers.contains_key("grpc-status"));
    head.headers
}

#[tokio::test]
async fn a_grpc_web_call_sees_the_code_outside_of_tonic_web_and_inside() {
    let web = GrpcWebLayer::new;
    let limit = || RateLimitLayer::new(three(), LocalStore::new(), Global);
    let server = || Server::builder().accept_http1(true);
    let outside = serve!(server().layer(limit()).layer(web()));
    let inside = serve!(server().layer(web()).layer(limit()));
    for server in [outside, inside] {
        for form in ["", "-text", "+proto"] {
            let content_type = format!("application/grpc-web{form}");
            let admitted = web_call(server, &content_type, &[]).await;
            assert!(!admitted.contains_key("grpc-status"));
            assert!(admitted.contains_key("ratelimit"));
        }
        for form in ["application/grpc-web", "application/grpc-web-text"] {
            let answered = format!("{form}+proto");
            for asked in [form, &answered] {
                let refused = web_call(server, asked, &[]).await;
                assert_eq!(refused["grpc-status"], "8");
                assert_eq!(refused["content-type"], *answered);
                let status = Status::from_header_map(&refused).unwrap();
                assert!(status.get_details_retry_info().is_some());
            }
        }
        // Plain gRPC passes tonic-web by.
        let refused = client(server).await.check(check()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        // And a client that speaks gRPC-Web itself.
        let http = Client::builder(TokioExecutor::new()).build_http();
        let http = GrpcWebClientLayer::new().layer(http);
        let origin = format!("http://{server}").parse().unwrap();
        let mut client = HealthClient::with_origin(http, origin);
        let answer = timeout(LONGEST, client.check(check())).await.unwrap();
        assert_eq!(answer.unwrap_err().code(), Code::ResourceExhausted);
    }
}

#[tokio::test]
async fn what_a_caller_sends_is_not_in_the_answer() {
    let server = serve!(
        Server::builder()
            .accept_http1(true)
            .layer(RateLimitLayer::new(none(), LocalStore::new(), Global))
            .layer(GrpcWebLayer::new())
    );
    let sent = [
        ("grpc-status-details-bin", "AAAA"),
        ("grpc-status", "0"),
        ("grpc-message", "s3cret"),
        ("grpc-retry-pushback-ms", "1"),
        ("ratelimit", "\"s3cret\";r=9"),
    ];
    let content_type = "application/grpc-web";
    let mut plain = web_call(server, content_type, &[]).await;
    let mut injected = web_call(server, content_type, &sent).await;
    for headers in [&mut plain, &mut injected] {
        headers.remove("date");
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(headers["grpc-retry-pushback-ms"], "-1");
    }
    assert_eq!(plain, injected);
}
