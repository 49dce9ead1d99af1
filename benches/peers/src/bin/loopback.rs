//! A whole server over the loopback interface, with and without a layer.

use std::{
    cell::RefCell,
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::{Router, routing::get, serve::ListenerExt};
use hdrhistogram::Histogram;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tollgate::response::Fields;
use tollgate_peers::{
    layers,
    limit::{Answer, Limit},
    quick, table,
    turns::{Turn, Turns},
};

const CONNECTIONS: usize = 16;

const TEXT: &str = "axum's server on one thread and a client on another, HTTP/1.1 over 16 connections that each send \
    the next request when the last is answered; everything is admitted. All servers take turns. Most of the time is the \
    network's and the server's, so this is about whether a layer is felt at all; every peer with fields writes its \
    own.";

/// What is served, in the order of the table.
const NAMES: [&str; 7] = [
    "none",
    "tollgate, no fields",
    "tower_governor",
    "tollgate",
    "tower_governor `use_headers`",
    "axum-governor",
    "throttle-kit",
];

fn main() {
    table::section("End to end", TEXT);
    let servers = tokio::runtime::Builder::new_multi_thread();
    let servers = { servers }.worker_threads(1).enable_all().build();
    let servers = servers.expect("a runtime");
    let client = tokio::runtime::Builder::new_current_thread();
    let client = { client }.enable_all().build().expect("a runtime");

    let addresses = servers.block_on(serve_all());
    let latencies = [const { RefCell::new(Vec::new()) }; NAMES.len()];
    let turn = |index: usize| -> Turn<'_> {
        let connections = RefCell::new(client.block_on(connect(addresses[index])));
        let (client, latencies) = (&client, &latencies[index]);
        Box::new(move || {
            let (seconds, p99) = client.block_on(load(&mut connections.borrow_mut()));
            latencies.borrow_mut().push(p99);
            seconds
        })
    };
    let turns = Turns::new(25, 9);
    let times = turns.take(std::array::from_fn::<_, { NAMES.len() }, _>(turn));
    let latencies = latencies.map(|numbers| turns.series(&numbers.borrow()));

    table::head(&[
        "layer",
        "requests a second",
        "p99, µs",
        "its time, as a multiple of none",
        "its p99, as a multiple of none",
    ]);
    for (index, name) in NAMES.into_iter().enumerate() {
        let (time, latency) = (&times[index], &latencies[index]);
        table::row(&[
            &name,
            &format!("{:.0}", requests() as f64 / time.median()),
            &format!("{:.0}", latency.median()),
            &time.ratio_to(&times[0]).plain(),
            &latency.ratio_to(&latencies[0]).plain(),
        ]);
    }
    table::head(&["peer", "tollgate's time of a request", "tollgate's p99"]);
    for (ours, its) in [(1, 2), (3, 4), (3, 5), (3, 6)] {
        table::row(&[
            &NAMES[its],
            &times[ours].ratio_to(&times[its]),
            &latencies[ours].ratio_to(&latencies[its]),
        ]);
    }
}

/// Of a turn.
fn requests() -> usize {
    if quick() { 320 } else { 1_600 }
}

async fn serve_all() -> [SocketAddr; NAMES.len()] {
    let limit = Limit::that_is(Answer::Admitted, 1);
    let bare = || Router::new().route("/", get(|| async { "hello" }));
    [
        serve(bare()).await,
        serve(bare().layer(layers::tollgate(limit, Fields::Off))).await,
        serve(bare().layer(layers::tower_governor(limit))).await,
        serve(bare().layer(layers::tollgate(limit, Fields::default()))).await,
        serve(bare().layer(layers::tower_governor_with_headers(limit))).await,
        serve(bare().layer(layers::axum_governor(limit))).await,
        serve(bare().layer(layers::throttle_kit(limit))).await,
    ]
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

type Connection = http1::SendRequest<Empty<Bytes>>;

async fn connect(address: SocketAddr) -> Vec<Connection> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option of the socket");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        connections.push(sender);
    }
    connections
}

/// Seconds of a turn, and the 99th percentile of its latencies in microseconds.
async fn load(connections: &mut Vec<Connection>) -> (f64, f64) {
    let start = Instant::now();
    let tasks: Vec<_> = connections
        .drain(..)
        .map(|mut connection| {
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                for _ in 0..requests() / CONNECTIONS {
                    let sent = Instant::now();
                    ask(&mut connection).await;
                    latencies.push(sent.elapsed());
                }
                (connection, latencies)
            })
        })
        .collect();
    let mut histogram =
        Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds");
    for task in tasks {
        let task = tokio::time::timeout(Duration::from_secs(60), task);
        let (connection, latencies) = task.await.expect("within a minute").expect("no panic");
        connections.push(connection);
        for latency in latencies {
            histogram.saturating_record(latency.as_nanos() as u64);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    (seconds, histogram.value_at_quantile(0.99) as f64 / 1e3)
}

async fn ask(connection: &mut Connection) {
    connection.ready().await.expect("an open connection");
    let request = Request::builder()
        .header("host", "localhost")
        .body(Empty::new());
    let answer = connection
        .send_request(request.expect("a request"))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body().collect().await.expect("a body");
}
