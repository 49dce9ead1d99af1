//! How many of many requests are admitted, and when the next one is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, routing::get};
use tokio::{sync::Barrier, task::JoinSet};
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::{FixedWindow, SlidingLog, TokenBucket},
    clock::Clock,
    key::{Global, PeerIp},
    store::LocalStore,
};
use tollgate_wire::{Connection, Version, fresh_store, serve};

#[tokio::test]
async fn a_burst_on_one_connection_gets_exactly_the_limit() {
    for version in Version::ALL {
        let limit = RateLimitLayer::new(
            TokenBucket::new(Quota::per_day(5)),
            fresh_store().1,
            PeerIp::new(),
        );
        let server = serve(
            Router::new()
                .route("/", get(|| async { "hello" }))
                .layer(limit),
        )
        .await;
        let mut connection = Connection::open(version, server.address).await;
        for left in (0..5).rev() {
            let reply = connection.get("/").await;
            assert_eq!((reply.status.as_u16(), &*reply.body), (200, &b"hello"[..]));
            let expected = format!("\"token-bucket-5-1d\";r={left};t=17280");
            assert_eq!(reply.field("ratelimit"), expected);
        }
        for _ in 0..3 {
            let reply = connection.get("/").await;
            assert_eq!(reply.status, 429, "{version:?}");
            assert_eq!(reply.field("retry-after"), "17280");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_at_once_on_one_connection_get_exactly_the_limit() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    // All who are admitted wait for each other, so that their streams are open at the same time.
    let together = Arc::new(Barrier::new(7));
    let handler = move || async move {
        count.fetch_add(1, Ordering::SeqCst);
        together.wait().await;
    };
    let limit = RateLimitLayer::new(
        SlidingLog::new(Quota::per_day(7)),
        LocalStore::new(),
        PeerIp::new(),
    );
    let server = serve(Router::new().route("/", get(handler)).layer(limit)).await;
    let connection = Connection::open(Version::Http2, server.address).await;
    let mut streams = JoinSet::new();
    for _ in 0..100 {
        let mut stream = connection.share();
        streams.spawn(async move { stream.get("/").await.status.as_u16() });
    }
    let done = tokio::time::timeout(Duration::from_secs(30), streams.join_all());
    let mut statuses = done.await.expect("seven are admitted, and meet");
    statuses.sort_unstable();
    assert_eq!(statuses[..7], [200; 7]);
    assert_eq!(statuses[7..], [429; 93]);
    assert_eq!(reached.load(Ordering::SeqCst), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_of_one_peer_share_one_budget() {
    let limit = RateLimitLayer::new(
        FixedWindow::new(Quota::per_day(9)),
        fresh_store().1,
        PeerIp::new(),
    );
    let server = serve(Router::new().route("/", get(|| async {})).layer(limit)).await;
    let mut connections = JoinSet::new();
    for number in 0..20 {
        let (address, version) = (server.address, Version::ALL[number % 2]);
        connections.spawn(async move {
            let mut connection = Connection::open(version, address).await;
            connection.get("/").await.status == 200
        });
    }
    let admitted = connections.join_all().await;
    assert_eq!(admitted.into_iter().filter(|admitted| *admitted).count(), 9);
}

/// Waits in real time: a second, which is the least that `Retry-After` can say.
#[tokio::test]
async fn whoever_waits_exactly_as_long_as_retry_after_says_is_admitted() {
    let limit = RateLimitLayer::new(
        SlidingLog::new(Quota::per_second(2)),
        LocalStore::new(),
        Global,
    );
    let server = serve(Router::new().route("/", get(|| async {})).layer(limit)).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    let start = Instant::now();
    let refused = loop {
        let reply = connection.get("/").await;
        if reply.status == 429 {
            break reply;
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    };
    let seconds = refused.field("retry-after").parse().unwrap();
    assert_eq!(seconds, 1);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    assert_eq!(connection.get("/").await.status, 200);
}

/// The clock of the store is turned, to the second and to the microsecond.
#[tokio::test]
async fn a_wait_of_any_length_is_enough_and_a_tick_less_is_not() {
    let (clock, store) = fresh_store();
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_hour(7)), store, Global);
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let server = serve(app).await;
    let mut connection = Connection::open(Version::Http2, server.address).await;
    for _ in 0..7 {
        assert_eq!(connection.get("/").await.status, 200);
    }
    let start = clock.now();
    for _ in 0..5 {
        let refused = connection.get("/").await;
        let seconds = refused.field("retry-after").parse().unwrap();
        clock.advance(Duration::from_secs(seconds));
        assert_eq!(connection.get("/").await.status, 200);
    }
    // Six units more than the burst: 6 * 3600 s / 7, rounded up to a microsecond.
    clock.set(start.saturating_add(Duration::from_micros(3_085_714_285)));
    assert_eq!(connection.get("/").await.status, 429);
    clock.advance(Duration::from_micros(1));
    assert_eq!(connection.get("/").await.status, 200);
}
