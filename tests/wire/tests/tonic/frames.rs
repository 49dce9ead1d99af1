//! What goes over the wire: the frames of HTTP/2 themselves.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::{
    io::{self, AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tonic::transport;

use crate::server::{health, limit, start};

/// A connection that remembers all bytes that were read from it.
struct Overheard {
    stream: TcpStream,
    read: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Overheard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.read.lock().unwrap().extend(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Overheard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A frame of HTTP/2 (RFC 9113, section 4.1): its type, its flags and its stream.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        frames.push(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
        });
        bytes = rest.get(length as usize..).unwrap_or_default();
    }
    frames
}

#[tokio::test]
async fn a_refused_call_is_answered_with_one_frame_of_headers_that_ends_its_stream() {
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit(1)))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let read = Arc::new(Mutex::new(Vec::new()));
    let overheard = Overheard {
        stream: TcpStream::connect(server.address).await.unwrap(),
        read: Arc::clone(&read),
    };
    let (mut client, connection) = h2::client::handshake(overheard).await.unwrap();
    tokio::spawn(connection);

    let mut statuses = Vec::new();
    for _ in 0..2 {
        let request = http::Request::post("http://server/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        client = client.ready().await.unwrap();
        let request = request.body(()).unwrap();
        let (response, mut body) = client.send_request(request, false).unwrap();
        // A message without fields: not compressed, of no length.
        body.send_data(Bytes::from_static(b"\0\0\0\0\0"), true)
            .unwrap();
        let mut response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        statuses.push(response.headers().get("grpc-status").cloned());
        let body = response.body_mut();
        while let Some(data) = body.data().await {
            let _ = body.flow_control().release_capacity(data.unwrap().len());
        }
        let trailers = body.trailers().await.unwrap();
        assert_eq!(trailers.is_some(), statuses.len() == 1);
    }
    // The admitted call tells its status in its trailers, the refused one in its headers.
    assert_eq!(statuses[0], None);
    assert_eq!(statuses[1].as_ref().unwrap(), "8");

    let frames = frames(&read.lock().unwrap());
    let of = |stream| frames.iter().filter(move |frame| frame.stream == stream);
    let kinds: Vec<_> = of(1)
        .map(|frame| frame.kind)
        .filter(|kind| [DATA, HEADERS].contains(kind))
        .collect();
    assert_eq!(kinds, [HEADERS, DATA, HEADERS], "{frames:?}");
    let refused: Vec<_> = of(3)
        .filter(|frame| [DATA, HEADERS].contains(&frame.kind))
        .collect();
    let whole = Frame {
        kind: HEADERS,
        flags: END_STREAM | END_HEADERS,
        stream: 3,
    };
    assert_eq!(refused, [&whole], "{frames:?}");
}
