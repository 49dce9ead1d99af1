//! HTTP/2 by hand: the frames as they come, which no client library shows.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A frame without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    stream: u32,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A field as HPACK's literal without indexing and without Huffman's code.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).ok().filter(|length| *length < 127);
    let mut bytes = vec![0, length(name).unwrap()];
    bytes.extend(name.as_bytes());
    bytes.push(length(value).unwrap());
    bytes.extend(value.as_bytes());
    bytes
}

async fn read(connection: &mut TcpStream) -> Frame {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await.unwrap();
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
    connection.read_exact(&mut payload).await.unwrap();
    let stream = u32::from_be_bytes(stream);
    Frame {
        kind,
        flags,
        stream,
    }
}

/// Opens a gRPC call, sends no message and does not say that there is none: what comes back on its
/// stream until a ping that is sent after the first of it has come back as well.
pub(crate) async fn of_an_open_call(server: SocketAddr, path: &str) -> Vec<Frame> {
    let mut connection = TcpStream::connect(server).await.unwrap();
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        block.extend(literal(name, value));
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &block));
    connection.write_all(&bytes).await.unwrap();

    let mut of_the_call = Vec::new();
    loop {
        let read = read(&mut connection).await;
        if read.stream == 1 {
            if of_the_call.is_empty() {
                let ping = frame(PING, 0, 0, b"finished");
                connection.write_all(&ping).await.unwrap();
            }
            of_the_call.push(read);
        } else if read.kind == PING && read.flags == ACK {
            return of_the_call;
        }
    }
}
