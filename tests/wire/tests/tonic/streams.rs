//! Calls with a stream on either side: one decision for each call, before its first message.

use std::time::Duration;

use tonic::{Code, Request, codegen::tokio_stream, transport};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient},
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

use crate::server::{ask, channel, client, health, limit, start};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_stream_of_answers_is_refused_before_its_first_message() {
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit(1)))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let mut client = client(server.address).await;
    let mut admitted = client.watch(ask()).await.unwrap().into_inner();
    let message = tokio::time::timeout(SOON, admitted.message())
        .await
        .unwrap();
    assert!(message.unwrap().is_some());
    let refused = tokio::time::timeout(SOON, client.watch(ask()))
        .await
        .unwrap();
    let status = refused.expect_err("it is refused, and not in its stream");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_retry_info().is_some());
}

#[tokio::test]
async fn a_stream_is_one_call_however_many_messages_it_has() {
    let (reporter, health) = tonic_health::server::health_reporter();
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit(2)))
            .add_service(health)
            .serve_with_incoming(incoming)
    })
    .await;
    let mut client = client(server.address).await;
    let mut messages = client.watch(ask()).await.unwrap().into_inner();
    assert!(messages.message().await.unwrap().is_some());
    for status in [ServingStatus::NotServing, ServingStatus::Serving].repeat(5) {
        reporter.set_service_status("", status).await;
        let message = tokio::time::timeout(SOON, messages.message()).await;
        assert!(message.unwrap().unwrap().is_some());
    }
    client.check(ask()).await.unwrap();
    assert_eq!(
        client.check(ask()).await.unwrap_err().code(),
        Code::ResourceExhausted
    );
}

#[tokio::test]
async fn a_stream_of_requests_on_one_side_or_on_both_is_refused_before_its_first_message() {
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit(0)))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let channel = channel(server.address).await;
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    let path = || http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::new;
    // The caller never sends a message, so whatever waits for one waits for ever.
    let silent = || Request::new(tokio_stream::pending());

    grpc.ready().await.unwrap();
    let call = grpc.client_streaming(silent(), path(), codec());
    let status = tokio::time::timeout(SOON, call).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);

    grpc.ready().await.unwrap();
    let call = grpc.streaming(silent(), path(), codec());
    let answer = tokio::time::timeout(SOON, call).await.unwrap();
    let status = answer.expect_err("it is refused");
    assert_eq!(status.code(), Code::ResourceExhausted);

    // The connection is not the worse for it.
    let status = HealthClient::new(channel).check(ask()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}
