//! A real axum server on a loopback socket, and clients that leave the answers as they are.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tollgate::{
    RateLimitLayer, algorithm::Algorithm, clock::ManualClock, key::Key, store::LocalStore,
};

const LONGEST: Duration = Duration::from_secs(10);

/// Serves an app that is told who its peers are; says where.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Says hello to everyone.
pub(crate) fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// Time stands still for it, so that a busy machine changes nothing.
pub(crate) fn limit<A: Algorithm, K: Key, F>(
    algorithm: A,
    key: F,
) -> RateLimitLayer<A, LocalStore<A, K, ManualClock>, F> {
    RateLimitLayer::new(algorithm, crate::support::by_hand().1, key)
}

async fn connect(server: SocketAddr, local: [u8; 4]) -> TokioIo<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((local, 0).into()).unwrap();
    TokioIo::new(socket.connect(server).await.unwrap())
}

pub(crate) type Answer = Response<Bytes>;

async fn whole(sent: impl Future<Output = hyper::Result<Response<Incoming>>>) -> Answer {
    let whole = async {
        let (head, body) = sent.await.unwrap().into_parts();
        Response::from_parts(head, body.collect().await.unwrap().to_bytes())
    };
    timeout(LONGEST, whole).await.unwrap()
}

/// A connection of HTTP/1.1.
pub(crate) struct Http1(http1::SendRequest<Empty<Bytes>>);

impl Http1 {
    pub(crate) async fn connect(server: SocketAddr) -> Self {
        Self::connect_from(server, [127, 0, 0, 1]).await
    }

    pub(crate) async fn connect_from(server: SocketAddr, local: [u8; 4]) -> Self {
        let io = connect(server, local).await;
        let (sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub(crate) async fn send(&mut self, mut request: Request<()>) -> Answer {
        let host = "localhost".parse().unwrap();
        request.headers_mut().insert("host", host);
        self.0.ready().await.unwrap();
        whole(self.0.send_request(request.map(|()| Empty::new()))).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Request::get(path).body(()).unwrap()).await
    }

    pub(crate) async fn status(&mut self, path: &str) -> u16 {
        self.get(path).await.status().as_u16()
    }
}

/// A connection of HTTP/2; its clones are streams of it.
#[derive(Clone)]
pub(crate) struct Http2(http2::SendRequest<Empty<Bytes>>);

impl Http2 {
    pub(crate) async fn connect(server: SocketAddr) -> Self {
        let io = connect(server, [127, 0, 0, 1]).await;
        let executor = TokioExecutor::new();
        let (sender, connection) = http2::handshake(executor, io).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<()>) -> Answer {
        self.0.ready().await.unwrap();
        whole(self.0.send_request(request.map(|()| Empty::new()))).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        let uri = format!("http://localhost{path}");
        self.send(Request::get(uri).body(()).unwrap()).await
    }
}

/// Waits until this is so.
pub(crate) async fn comes(is_so: impl Fn() -> bool) {
    let comes = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONGEST, comes).await.expect("it comes");
}

/// The values of a field, line by line.
pub(crate) fn lines<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    let lines = answer.headers().get_all(name).iter();
    lines.map(|line| line.to_str().unwrap()).collect()
}
