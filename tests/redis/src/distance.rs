//! A server that is far away: what is sent to it, and what it sends, arrives later.

use std::{net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// Forwards what a client sends to the server on this port, and the answers, each so much later;
/// returns its own port.
///
/// It ends with the runtime.
///
/// # Panics
///
/// When there is no port for it.
pub async fn far_away(server: u16, each_way: Duration) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            connections.spawn(connection(client, server, each_way));
        }
    });
    port
}

/// Ends both ways when one of them ends.
async fn connection(client: TcpStream, server: u16, each_way: Duration) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut ways = JoinSet::new();
    ways.spawn(way(from_client, to_server, each_way));
    ways.spawn(way(from_server, to_client, each_way));
    ways.join_next().await;
}

async fn way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, later: Duration) {
    let (send, mut arrive) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let mut ways = JoinSet::new();
    ways.spawn(async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            let what = (Instant::now() + later, bytes[..length].to_vec());
            if send.send(what).is_err() {
                return;
            }
        }
    });
    ways.spawn(async move {
        while let Some((at, bytes)) = arrive.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    while ways.join_next().await.is_some() {}
}
