//! Requests and responses with as many fields as there can be: they pass, and nothing is lost or
//! added.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tollgate::{Quota, RateLimitLayer, algorithm::FixedWindow, key::Header, store::LocalStore};

const LONGEST: Duration = Duration::from_secs(20);

/// No `HeaderMap` holds more names.
const MOST: usize = 24_576;

fn fields(count: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for number in 0..count {
        let name = HeaderName::try_from(format!("x-{number}")).unwrap();
        headers.insert(name, HeaderValue::from_static("there"));
    }
    headers
}

fn daily(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units))
}

/// Serves an app on a connection that takes as many fields as there can be.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(app.clone());
            let mut server = http1::Builder::new();
            server.max_headers(MOST + 1).max_buf_size(4 * 1024 * 1024);
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn over_a_real_connection_both_ways_nothing_is_lost() {
    let handler = async |headers: HeaderMap| {
        assert_eq!(headers.len(), MOST);
        let mut response = Response::new(axum::body::Body::from("hello"));
        *response.headers_mut() = fields(MOST - 1);
        // Written here, as axum would write it without asking whether there is room.
        let length = HeaderValue::from_static("5");
        response.headers_mut().insert("content-length", length);
        response
    };
    let limit = RateLimitLayer::new(daily(1), LocalStore::new(), Header::new("x-0"));
    let app = Router::new().route("/", get(handler)).layer(limit);
    let server = serve(app).await;

    // The connection is kept: hyper, too, asks for no room where it announces that it closes one.
    let mut stream = TcpStream::connect(server).await.unwrap();
    let mut exchange = async |end: &str| {
        let mut request = b"GET / HTTP/1.1\r\nhost: localhost\r\n".to_vec();
        for number in 0..MOST - 1 {
            request.extend(format!("x-{number}: there\r\n").bytes());
        }
        request.extend(b"\r\n");
        stream.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let read = timeout(LONGEST, stream.read_buf(&mut answer)).await;
            assert_ne!(read.unwrap().unwrap(), 0, "the connection was closed");
        }
        String::from_utf8(answer).unwrap()
    };
    let admitted = exchange("\r\n\r\nhello").await;
    assert!(admitted.starts_with("HTTP/1.1 200 OK\r\n"));
    let ours = admitted
        .lines()
        .filter(|line| line.starts_with("ratelimit"));
    assert_eq!(ours.count(), 0);
    let theirs = admitted.lines().filter(|line| line.ends_with(": there"));
    assert_eq!(theirs.count(), MOST - 1);
    let refused = exchange("}").await;
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
}
