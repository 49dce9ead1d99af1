//! gRPC-Web, with the limit outside and inside of `tonic-web`: every client sees code 8.

use std::net::SocketAddr;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate_wire::{Connection, Reply, Server, Version};
use tonic::{Code, transport};
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;
use tonic_web::{GrpcWebClientLayer, GrpcWebLayer};
use tower::Layer;

use crate::server::{ask, health, limit, start};

async fn limit_outside(calls: u64) -> Server {
    start(|incoming| {
        (transport::Server::builder().accept_http1(true))
            .layer(limit(calls))
            .layer(GrpcWebLayer::new())
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await
}

async fn limit_inside(calls: u64) -> Server {
    start(|incoming| {
        (transport::Server::builder().accept_http1(true))
            .layer(GrpcWebLayer::new())
            .layer(limit(calls))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await
}

/// Calls as a browser does.
async fn call(address: SocketAddr, content_type: &str) -> Reply {
    let message: &[u8] = match content_type.contains("-text") {
        true => b"AAAAAAA=",
        false => b"\0\0\0\0\0",
    };
    let request = Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", content_type)
        .header("accept", content_type)
        .header("x-grpc-web", "1")
        .body(Full::new(Bytes::from_static(message)));
    let mut connection = Connection::open(Version::Http1, address).await;
    connection.send(request.unwrap()).await
}

/// The code as a browser finds it: in the header fields, or in the last frame of the body.
fn code(reply: &Reply) -> Code {
    assert_eq!(reply.status, 200);
    if let Some(code) = reply.headers.get("grpc-status") {
        assert!(reply.body.is_empty(), "{reply:?}");
        return Code::from_bytes(code.as_bytes());
    }
    let text = reply.field("content-type").contains("-text");
    let body = match text {
        // Each frame is encoded by itself, so that there may be padding in the middle.
        true => (reply.body.chunks(4))
            .flat_map(|four| STANDARD.decode(four).unwrap())
            .collect(),
        false => reply.body.to_vec(),
    };
    let mut frames = &body[..];
    while let Some(([kind, length @ ..], rest)) = frames.split_first_chunk::<5>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        if *kind == 0x80 {
            let fields = std::str::from_utf8(frame).unwrap();
            let code = fields
                .lines()
                .find_map(|line| line.strip_prefix("grpc-status:"));
            return Code::from_bytes(code.unwrap().trim().as_bytes());
        }
        frames = rest;
    }
    panic!("there is no code in {reply:?}")
}

const FORMS: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

#[tokio::test]
async fn a_browser_sees_code_8_whichever_side_of_tonic_web_the_limit_is_on() {
    for form in FORMS {
        for server in [limit_outside(1).await, limit_inside(1).await] {
            let admitted = call(server.address, form).await;
            assert_eq!(code(&admitted), Code::Ok, "{form}");
            let refused = call(server.address, form).await;
            assert_eq!(code(&refused), Code::ResourceExhausted, "{form}");
            let content_type = refused.field("content-type");
            let answered = match form.contains("-text") {
                true => "application/grpc-web-text+proto",
                false => "application/grpc-web+proto",
            };
            assert_eq!(content_type, answered, "{form}");
            assert!(refused.headers.contains_key("grpc-status-details-bin"));
        }
    }
}

async fn check(address: SocketAddr) -> Result<(), tonic::Status> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let service = GrpcWebClientLayer::new().layer(client);
    let origin: Uri = format!("http://{address}").parse().unwrap();
    let mut client = HealthClient::with_origin(service, origin);
    client.check(ask()).await.map(|_| ())
}

#[tokio::test]
async fn tonic_s_own_client_for_grpc_web_reads_the_code_and_the_details() {
    for server in [limit_outside(1).await, limit_inside(1).await] {
        check(server.address).await.unwrap();
        let status = check(server.address).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.get_details_retry_info().is_some());
        let failure = status.get_details_quota_failure().unwrap();
        assert_eq!(failure.violations[0].subject, "calls");
    }
}

#[tokio::test]
async fn a_plain_http_request_to_the_same_server_is_refused_with_429() {
    let server = limit_outside(0).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    let reply = connection.get("/grpc.health.v1.Health/Check").await;
    assert_eq!(reply.status, 429);
    assert!(!reply.headers.contains_key("grpc-status"));
}
