//! One service speaks HTTP and gRPC on one port, over TLS: a caller has one limit for both, on
//! HTTP/1.1 connections that are kept and on HTTP/2.

use std::{net::SocketAddr, sync::Arc};

use axum::{Extension, extract::ConnectInfo, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::{http1, http2},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use rcgen::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    },
};
use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::PeerIp, store::LocalStore};
use tonic::{Code, service::Routes, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::service_fn;

const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";

/// Serves both, behind one layer that lets three requests of an address through.
async fn serve(listener: TcpListener, tls: TlsAcceptor) {
    let (_, health) = tonic_health::server::health_reporter();
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_day(3)),
        LocalStore::new(),
        PeerIp::new(),
    );
    let app = Routes::new(health)
        .into_axum_router()
        .route("/hello", get(|| async { "hello" }))
        .layer(limit);
    while let Ok((stream, peer)) = listener.accept().await {
        let (app, tls) = (app.clone().layer(Extension(ConnectInfo(peer))), tls.clone());
        tokio::spawn(async move {
            let stream = TokioIo::new(tls.accept(stream).await.unwrap());
            let service = TowerToHyperService::new(app);
            let server = auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(stream, service).await;
        });
    }
}

#[derive(Clone)]
struct Served {
    at: SocketAddr,
    certificate: CertificateDer<'static>,
}

impl Served {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let CertifiedKey { cert, signing_key } = made;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let server = server.with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth();
        let mut server = server
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        server.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1.to_vec()];
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(server))));
        let certificate = cert.der().clone();
        Self { at, certificate }
    }

    /// A connection by this protocol.
    async fn connect(&self, protocol: &[u8]) -> TokioIo<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let mut client = client.with_root_certificates(roots).with_no_client_auth();
        client.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.at).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(client))
            .connect(name, stream)
            .await;
        TokioIo::new(stream.unwrap())
    }
}

fn hello() -> Request<Empty<Bytes>> {
    let uri = "https://localhost/hello";
    Request::get(uri)
        .header("host", "localhost")
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn http_and_grpc_of_one_service_share_a_limit_on_connections_that_are_kept() {
    let served = Served::start().await;
    let (mut kept, connection) = http1::handshake(served.connect(HTTP_1).await)
        .await
        .unwrap();
    tokio::spawn(connection);
    let (mut streams, connection) =
        http2::handshake(TokioExecutor::new(), served.connect(HTTP_2).await)
            .await
            .unwrap();
    tokio::spawn(connection);
    let connector = service_fn({
        let served = served.clone();
        move |_| {
            let served = served.clone();
            async move { Ok::<_, std::io::Error>(served.connect(HTTP_2).await) }
        }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let mut grpc = HealthClient::new(channel);

    let admitted = kept.send_request(hello()).await.unwrap();
    assert_eq!(admitted.status(), StatusCode::OK);
    assert_eq!(
        admitted.headers()["ratelimit"],
        "\"token-bucket-3-1d\";r=2;t=28800"
    );
    assert_eq!(
        admitted.into_body().collect().await.unwrap().to_bytes(),
        "hello"
    );
    grpc.check(HealthCheckRequest::default()).await.unwrap();
    let last = streams.send_request(hello()).await.unwrap();
    assert_eq!(last.status(), StatusCode::OK);

    for _ in 0..2 {
        let refused = grpc.check(HealthCheckRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let refused = [
            kept.send_request(hello()).await.unwrap(),
            streams.send_request(hello()).await.unwrap(),
        ];
        for refused in refused {
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(
                refused.headers()["content-type"],
                "application/problem+json"
            );
            refused.into_body().collect().await.unwrap();
        }
    }
}
