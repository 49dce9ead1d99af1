//! A proxy between a client and its server: it forwards, holds back what comes, or is slow.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// A port on loopback in front of a server. Dropping it ends it.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    seen: Arc<Seen>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Seen {
    accepted: AtomicUsize,
    /// Bytes, by the number of the connection.
    answered: Mutex<HashMap<usize, u64>>,
    /// Connections with a lower number forward nothing, in neither direction, and stay open.
    held_below: watch::Sender<usize>,
    delay: Mutex<Duration>,
}

impl Proxy {
    /// A proxy before the server on this port, which forwards each piece so much later, in both
    /// directions, as if the server were that far away.
    pub async fn start(server: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a port for the proxy");
        let port = listener.local_addr().expect("its address").port();
        let seen = Arc::new(Seen {
            accepted: AtomicUsize::new(0),
            answered: Mutex::default(),
            held_below: watch::Sender::new(0),
            delay: Mutex::new(delay),
        });
        let listening = tokio::spawn(listen(listener, server, Arc::clone(&seen)));
        Self {
            port,
            seen,
            listening,
        }
    }

    /// Forwards each piece after this delay from now on.
    pub fn set_delay(&self, delay: Duration) {
        *self.seen.delay.lock().expect("no panic") = delay;
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections were made to it.
    pub fn accepted(&self) -> usize {
        self.seen.accepted.load(Ordering::Relaxed)
    }

    /// How many bytes the server has answered over this connection, counted from 0.
    pub fn answered_over(&self, connection: usize) -> u64 {
        let answered = self.seen.answered.lock().expect("no panic");
        answered.get(&connection).copied().unwrap_or(0)
    }

    /// Forwards nothing more on the connections before this number, without closing them. New ones
    /// work.
    pub fn hold_first(&self, connections: usize) {
        self.seen.held_below.send_replace(connections);
    }

    /// Forwards again on all connections, what was held first.
    pub fn forward(&self) {
        self.seen.held_below.send_replace(0);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, server: u16, seen: Arc<Seen>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = seen.accepted.fetch_add(1, Ordering::Relaxed);
        let seen = Arc::clone(&seen);
        connections.spawn(async move {
            if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await {
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::select! {
                    () = pipe(from_client, to_server, (number, &seen), |_| {}) => {}
                    () = pipe(from_server, to_client, (number, &seen), |bytes| {
                        let mut answered = seen.answered.lock().expect("no panic");
                        *answered.entry(number).or_default() += bytes as u64;
                    }) => {}
                }
            }
        });
    }
}

async fn pipe(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (number, seen): (usize, &Seen),
    count: impl Fn(usize),
) {
    let forwards = async || {
        let mut held_below = seen.held_below.subscribe();
        held_below.wait_for(|&held| number >= held).await.is_ok()
    };
    let (send, mut arrives) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async {
        let (send, mut buffer) = (send, vec![0; 16 * 1024]);
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let at = Instant::now() + *seen.delay.lock().expect("no panic");
            // Nobody reads on while the connection is held.
            if send.send((at, buffer[..read].to_vec())).is_err() || !forwards().await {
                return;
            }
        }
    };
    let write = async {
        while let Some((at, bytes)) = arrives.recv().await {
            sleep_until(at).await;
            if !forwards().await || to.write_all(&bytes).await.is_err() {
                return;
            }
            count(bytes.len());
        }
    };
    tokio::join!(read, write);
}
