//! gRPC calls that are out of the ordinary: streams on either side, no address, and details from
//! elsewhere.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::Response;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tollgate::{
    LocalRateLimitLayer, Quota, RateLimitLayer,
    algorithm::FixedWindow,
    key::{Global, PeerIp, Rejection, from_fn},
    store::LocalStore,
};
use tonic::{
    Code, Request,
    codegen::tokio_stream,
    metadata::MetadataValue,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient},
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

const LONGEST: Duration = Duration::from_secs(10);

/// So many calls from now on, and none after them for a day.
fn calls(units: u64) -> FixedWindow {
    let calls = FixedWindow::new(Quota::per_day(units)).from_first_request();
    calls.named("calls")
}

fn limit(units: u64) -> LocalRateLimitLayer<FixedWindow, (), Global> {
    RateLimitLayer::new(calls(units), LocalStore::new(), Global)
}

fn listen() -> (TcpIncoming, SocketAddr) {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = incoming.local_addr().unwrap();
    (incoming, address)
}

async fn connect(server: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).unwrap();
    endpoint.timeout(LONGEST).connect().await.unwrap()
}

fn check() -> HealthCheckRequest {
    HealthCheckRequest::default()
}

#[tokio::test]
async fn a_stream_is_one_call_however_many_messages_it_has() {
    let (reporter, health) = tonic_health::server::health_reporter();
    let (incoming, server) = listen();
    let limited = Server::builder().layer(limit(2)).add_service(health);
    tokio::spawn(limited.serve_with_incoming(incoming));
    let mut client = HealthClient::new(connect(server).await);
    let mut messages = client.watch(check()).await.unwrap().into_inner();
    assert!(messages.message().await.unwrap().is_some());
    for status in [ServingStatus::NotServing, ServingStatus::Serving].repeat(5) {
        reporter.set_service_status("", status).await;
        let message = timeout(LONGEST, messages.message()).await.unwrap();
        assert!(message.unwrap().is_some());
    }
    client.check(check()).await.unwrap();
    let status = client.check(check()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_stream_of_requests_on_one_side_or_on_both_is_refused_before_its_first_message() {
    let (_reporter, health) = tonic_health::server::health_reporter();
    let (incoming, server) = listen();
    let limited = Server::builder().layer(limit(0)).add_service(health);
    tokio::spawn(limited.serve_with_incoming(incoming));
    let mut client = tonic::client::Grpc::new(connect(server).await);
    let path = || http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::new;
    // The caller never sends a message, so whatever waits for one waits for ever.
    let silent = || Request::new(tokio_stream::pending());

    client.ready().await.unwrap();
    let call = client.client_streaming(silent(), path(), codec());
    let status = timeout(LONGEST, call).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_quota_failure().is_some());

    client.ready().await.unwrap();
    let call = client.streaming(silent(), path(), codec());
    let status = timeout(LONGEST, call).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_connection_without_an_address_is_an_internal_error_and_no_free_pass() {
    let (_reporter, health) = tonic_health::server::health_reporter();
    let by_peer = RateLimitLayer::new(calls(2), LocalStore::new(), PeerIp::new());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let limited = Server::builder().layer(by_peer).add_service(health);
    let incoming = tokio_stream::iter([Ok::<_, std::io::Error>(far)]);
    tokio::spawn(limited.serve_with_incoming(incoming));
    let mut near = Some(TokioIo::new(near));
    let connector = tower::service_fn(move |_: http::Uri| {
        let near = near.take().ok_or(std::io::ErrorKind::NotConnected);
        async move { near.map_err(std::io::Error::from) }
    });
    let endpoint = Endpoint::from_static("http://server").timeout(LONGEST);
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let status = HealthClient::new(channel).check(check()).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "the address of the peer is not known");
}

struct Poisoned;

impl Rejection for Poisoned {
    fn into_response(self) -> Response<Bytes> {
        let response = Response::builder()
            .status(401)
            .header("grpc-status-details-bin", "!!!")
            .header("grpc-status", "0");
        response.body(Bytes::new()).unwrap()
    }
}

/// tonic's client panics on details that are no base64, so nobody but us may write them.
#[tokio::test]
async fn details_that_a_caller_sends_or_a_rejection_has_are_not_passed_on() {
    let key = from_fn(|request: &http::Request<tonic::body::Body>| {
        match request.headers().contains_key("x-key") {
            true => Ok(Some(())),
            false => Err(Poisoned),
        }
    });
    let (_reporter, health) = tonic_health::server::health_reporter();
    let (incoming, server) = listen();
    let limit = RateLimitLayer::new(calls(1), LocalStore::new(), key);
    let limited = Server::builder().layer(limit).add_service(health);
    tokio::spawn(limited.serve_with_incoming(incoming));
    let mut client = HealthClient::new(connect(server).await);
    let status = client.check(check()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.details().is_empty());

    let call = || {
        let mut call = Request::new(check());
        let metadata = call.metadata_mut();
        metadata.insert("x-key", "k".parse().unwrap());
        let details = MetadataValue::from_bytes(b"theirs");
        metadata.insert_bin("grpc-status-details-bin", details);
        call
    };
    client.check(call()).await.unwrap();
    let status = client.check(call()).await.unwrap_err();
    let failure = status.get_details_quota_failure().unwrap();
    assert_eq!(failure.violations[0].subject, "calls");
    assert!(!format!("{status:?}").contains("theirs"));
}
