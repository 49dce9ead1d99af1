//! The service that is limited: tonic's health service, which has a unary and a streaming call.

use std::net::SocketAddr;

use tollgate::{
    LocalRateLimitLayer, Quota, RateLimitLayer, algorithm::FixedWindow, key::Global,
    store::LocalStore,
};
use tollgate_wire::Server;
use tonic::transport::{Channel, Endpoint, Error, server::TcpIncoming};
use tonic_health::pb::{
    HealthCheckRequest,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};

/// Serves on a port that nobody else has.
pub(crate) async fn start<F>(serve: impl FnOnce(TcpIncoming) -> F) -> Server
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let (listener, address) = Server::listen().await;
    let server = serve(TcpIncoming::from(listener));
    Server::run(address, async { server.await.expect("the server goes on") })
}

pub(crate) fn health() -> HealthServer<impl Health> {
    tonic_health::server::health_reporter().1
}

pub(crate) fn ask() -> HealthCheckRequest {
    HealthCheckRequest::default()
}

pub(crate) async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

pub(crate) async fn client(address: SocketAddr) -> HealthClient<Channel> {
    HealthClient::new(channel(address).await)
}

/// So many calls from now on, and none after them for a day.
pub(crate) fn limit(calls: u64) -> LocalRateLimitLayer<FixedWindow, (), Global> {
    let limit = FixedWindow::new(Quota::per_day(calls)).from_first_request();
    RateLimitLayer::new(limit.named("calls"), LocalStore::new(), Global)
}
