//! A WebSocket of axum's is in flight for as long as its handler keeps its `Hold`.

use std::{net::SocketAddr, time::Duration};

use crate::loopback::{comes, serve};
use axum::{
    Extension, Router,
    extract::ws::{WebSocket, WebSocketUpgrade},
    response::Response,
    routing::get,
};
use futures_util::{SinkExt, StreamExt};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message},
};
use tollgate::{
    Hold, LocalRateLimiter, RateLimitLayer, algorithm::InFlight, key::Global, store::LocalStore,
};

const LONGEST: Duration = Duration::from_secs(10);
/// How many requests may be in flight.
const PLACES: u64 = 2;

type Limiter = LocalRateLimiter<InFlight, ()>;
type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Sends back what it is sent, until its caller has gone. Told to, it panics.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if message.to_text().is_ok_and(|text| text == "panic") {
            panic!("told to");
        }
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

async fn keeps_its_hold(hold: Option<Extension<Hold>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |socket| {
        echo(socket).await;
        drop(hold);
    })
}

async fn forgets_its_hold(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo)
}

async fn served() -> (SocketAddr, Limiter) {
    let limit = RateLimitLayer::new(InFlight::new(PLACES), LocalStore::new(), Global);
    let limiter = limit.limiter().clone();
    let app = Router::new()
        .route("/kept", get(keeps_its_hold))
        .route("/forgotten", get(forgets_its_hold))
        .layer(limit);
    (serve(app).await, limiter)
}

async fn connected(server: SocketAddr, path: &str) -> Result<Client, u16> {
    let connecting = connect_async(format!("ws://{server}{path}"));
    match timeout(LONGEST, connecting).await.expect("an answer") {
        Ok((client, _)) => Ok(client),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// The handler runs: it answers.
async fn answers(client: &mut Client) {
    let exchange = async {
        client.send(Message::text("hello")).await.unwrap();
        client.next().await.unwrap().unwrap()
    };
    let answer = timeout(LONGEST, exchange).await.expect("an answer");
    assert_eq!(answer, Message::text("hello"));
}

fn taken(limiter: &Limiter) -> u64 {
    PLACES - limiter.peek(&()).now().remaining()
}

#[tokio::test]
async fn a_socket_is_in_flight_until_it_closes() {
    let (server, limiter) = served().await;
    let mut first = connected(server, "/kept").await.unwrap();
    let mut second = connected(server, "/kept").await.unwrap();
    // Both handlers run, so their responses have long been sent.
    answers(&mut first).await;
    answers(&mut second).await;
    assert_eq!(taken(&limiter), 2);
    assert_eq!(connected(server, "/kept").await.unwrap_err(), 429);
    assert_eq!(connected(server, "/forgotten").await.unwrap_err(), 429);
    answers(&mut first).await;

    first.close(None).await.unwrap();
    comes(|| taken(&limiter) == 1).await;
    let mut third = connected(server, "/kept").await.unwrap();
    answers(&mut third).await;
    answers(&mut second).await;
    assert_eq!(taken(&limiter), 2);
}

#[tokio::test]
async fn a_socket_whose_caller_vanishes_or_whose_handler_panics_gives_its_place_back() {
    let (server, limiter) = served().await;
    let mut vanishes = connected(server, "/kept").await.unwrap();
    let mut panics = connected(server, "/kept").await.unwrap();
    answers(&mut vanishes).await;
    answers(&mut panics).await;
    assert_eq!(taken(&limiter), 2);

    drop(vanishes); // no closing handshake: the connection is gone
    comes(|| taken(&limiter) == 1).await;
    panics.send(Message::text("panic")).await.unwrap();
    comes(|| taken(&limiter) == 0).await;
}

#[tokio::test]
async fn a_socket_whose_handler_keeps_no_hold_is_in_flight_until_it_is_upgraded() {
    let (server, limiter) = served().await;
    let mut sockets = Vec::new();
    for _ in 0..=PLACES {
        let mut socket = connected(server, "/forgotten").await.unwrap();
        answers(&mut socket).await;
        comes(|| taken(&limiter) == 0).await;
        sockets.push(socket);
    }
}
