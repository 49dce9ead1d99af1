//! tonic's own word for who the peer is.

use std::net::{Ipv4Addr, SocketAddr};

use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;
use tollgate::{Quota, RateLimitLayer, algorithm::FixedWindow, key::PeerIp, store::LocalStore};
use tonic::{
    Code,
    codegen::tokio_stream,
    transport::{self, Channel, Endpoint},
};
use tonic_health::pb::health_client::HealthClient;

use crate::server::{ask, health, start};

/// Every address of 127.0.0.0/8 is this machine's.
async fn client_from(source: [u8; 4], server: SocketAddr) -> HealthClient<Channel> {
    let connector = tower::service_fn(move |_: http::Uri| async move {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::from(source), 0).into())?;
        socket.connect(server).await.map(TokioIo::new)
    });
    let endpoint = Endpoint::from_static("http://server");
    let channel = endpoint.connect_with_connector(connector).await;
    HealthClient::new(channel.unwrap())
}

#[tokio::test]
async fn each_peer_of_a_tonic_server_has_a_bucket_of_its_own() {
    let limit = FixedWindow::new(Quota::per_day(2));
    let limit = RateLimitLayer::new(limit, LocalStore::new(), PeerIp::new());
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    for source in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        for _ in 0..2 {
            // A new connection, from another port, is no new peer.
            let mut client = client_from(source, server.address).await;
            client.check(ask()).await.unwrap();
        }
        let mut client = client_from(source, server.address).await;
        let status = client.check(ask()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }
}

#[tokio::test]
async fn a_connection_without_an_address_is_an_internal_error_and_no_free_pass() {
    let limit = FixedWindow::new(Quota::per_day(2));
    let limit = RateLimitLayer::new(limit, LocalStore::new(), PeerIp::new());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let incoming = tokio_stream::iter([Ok::<_, std::io::Error>(far)]);
    let server = (transport::Server::builder().layer(limit))
        .add_service(health())
        .serve_with_incoming(incoming);
    tokio::spawn(server);
    let mut near = Some(TokioIo::new(near));
    let connector = tower::service_fn(move |_: http::Uri| {
        let near = near.take().ok_or(std::io::ErrorKind::NotConnected);
        async move { near }
    });
    let endpoint = Endpoint::from_static("http://server");
    let connector = tower::util::MapErr::new(connector, std::io::Error::from);
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let status = HealthClient::new(channel).check(ask()).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "the address of the peer is not known");
}
