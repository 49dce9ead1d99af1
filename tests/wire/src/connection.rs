//! Clients: one connection of either version of HTTP, or bare bytes.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The two versions that a server speaks without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One request after another.
    Http1,
    /// Many streams at once.
    Http2,
}

impl Version {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];
}

/// What was answered, all of it.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The trailer fields, if any.
    pub trailers: Option<HeaderMap>,
}

impl Reply {
    async fn read(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("the body ends");
        let trailers = body.trailers().cloned();
        Self {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
            trailers,
        }
    }

    /// The one line of this field.
    #[track_caller]
    pub fn field(&self, name: &str) -> &str {
        let lines: Vec<_> = self.headers.get_all(name).iter().collect();
        assert_eq!(lines.len(), 1, "{name} in {self:?}");
        lines[0].to_str().expect("it is ASCII")
    }

    /// All lines of this field.
    pub fn lines(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.get_all(name).iter();
        lines
            .map(|line| line.to_str().expect("it is ASCII"))
            .collect()
    }
}

/// One connection.
#[derive(Debug)]
pub enum Connection {
    /// Of HTTP/1.1.
    Http1(SocketAddr, http1::SendRequest<Full<Bytes>>),
    /// Of HTTP/2, without TLS.
    Http2(SocketAddr, http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Connects.
    pub async fn open(version: Version, address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address)
            .await
            .expect("the server listens");
        let io = TokioIo::new(stream);
        match version {
            Version::Http1 => {
                let (sender, driver) = http1::handshake(io).await.expect("it speaks HTTP/1.1");
                tokio::spawn(driver);
                Self::Http1(address, sender)
            }
            Version::Http2 => {
                let handshake = http2::handshake(TokioExecutor::new(), io).await;
                let (sender, driver) = handshake.expect("it speaks HTTP/2");
                tokio::spawn(driver);
                Self::Http2(address, sender)
            }
        }
    }

    /// Sends a request whose target is a path; the authority is added.
    pub async fn send(&mut self, mut request: Request<Full<Bytes>>) -> Reply {
        let response = match self {
            Self::Http1(address, sender) => {
                let host = address.to_string().try_into().expect("it is ASCII");
                request.headers_mut().insert(http::header::HOST, host);
                sender.ready().await.expect("the connection is open");
                sender.send_request(request).await
            }
            Self::Http2(address, sender) => {
                let uri = format!("http://{address}{}", request.uri());
                *request.uri_mut() = uri.parse().expect("an address and a path are a URI");
                sender.ready().await.expect("the connection is open");
                sender.send_request(request).await
            }
        };
        Reply::read(response.expect("there is an answer")).await
    }

    /// Gets a path.
    pub async fn get(&mut self, path: &str) -> Reply {
        self.send(get(path)).await
    }

    /// Another handle for the same connection of HTTP/2.
    #[must_use]
    pub fn share(&self) -> Self {
        match self {
            Self::Http1(..) => panic!("a connection of HTTP/1.1 has one request at a time"),
            Self::Http2(address, sender) => Self::Http2(*address, sender.clone()),
        }
    }
}

/// A request for a path, without a body.
pub fn get(path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(path).body(Full::default());
    request.expect("it is a path")
}

/// Sends bytes as they are and reads until the server closes.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address)
        .await
        .expect("the server listens");
    stream.write_all(bytes).await.expect("it reads");
    let mut answer = Vec::new();
    // A server that refuses what it reads may reset the connection; what came before that counts.
    let _ = stream.read_to_end(&mut answer).await;
    answer
}
