//! A store that is set up wrongly lets nobody through, whatever the choice: in a crowd, and however
//! far away the server is.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fred::{clients::Client, interfaces::ClientLike, types::config::Config};
use http::{Request, Response, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    OnStoreError, Quota, RateLimitLayer, RateLimiter, StoreErrorKind,
    algorithm::{Gcra, SlidingLog},
    key::from_fn,
    store::{LocalStore, RedisStore},
};
use tollgate_redis_tests::{Server, centralized, far_away};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};

use crate::traffic::unconnected;

/// So many callers come at once, each again and again.
const CALLERS: u32 = 300;

fn client(port: u16, password: &str) -> Client {
    unconnected(Config {
        username: Some("app".to_owned()),
        password: Some(password.to_owned()),
        ..centralized(port)
    })
}

async fn user(server: &Server, rights: &[&str]) {
    let words = ["SETUSER", "app", "reset", "on", ">word", "~tollgate:*"];
    let words: Vec<_> = words.iter().chain(rights).copied().collect();
    let _: String = server.command("ACL", &words).await;
}

/// The answers to a crowd, through a layer that admits without a decision if it may.
#[derive(Debug, Default)]
struct Answered {
    decided: AtomicU64,
    let_through: AtomicU64,
    misconfigured: AtomicU64,
    unavailable: AtomicU64,
}

impl Answered {
    async fn of(store: &RedisStore, lasting: Duration) -> [u64; 4] {
        let answered = Arc::new(Self::default());
        let key = |request: &Request<u32>| Ok::<_, Infallible>(Some(*request.body() % 24));
        let rule = || Gcra::new(Quota::per_second(1_000_000)).burst(1_000_000);
        let layer = RateLimitLayer::new(rule(), store.clone(), from_fn(key));
        let inner =
            service_fn(async |_: Request<u32>| Ok::<_, Infallible>(Response::new(Bytes::new())));
        let here = RateLimiter::new(rule(), LocalStore::new());
        let uncounted = layer.clone().on_store_error(OnStoreError::Admit);
        let services = [
            BoxCloneSyncService::new(uncounted.layer(inner)),
            BoxCloneSyncService::new(layer.on_store_error(here).layer(inner)),
        ];
        let end = Instant::now() + lasting;
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let service = services[caller as usize % services.len()].clone();
            let answered = Arc::clone(&answered);
            callers.spawn(async move {
                while Instant::now() < end {
                    let response = service.clone().oneshot(Request::new(caller)).await.unwrap();
                    let is_decided = response.headers().contains_key("ratelimit");
                    let counter = match response.status() {
                        StatusCode::OK if is_decided => &answered.decided,
                        StatusCode::OK => &answered.let_through,
                        StatusCode::INTERNAL_SERVER_ERROR => &answered.misconfigured,
                        StatusCode::SERVICE_UNAVAILABLE => &answered.unavailable,
                        status => panic!("{status}"),
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(1)).await;
                }
            });
        }
        while let Some(done) = callers.join_next().await {
            done.unwrap();
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = [
            count(&answered.decided),
            count(&answered.let_through),
            count(&answered.misconfigured),
            count(&answered.unavailable),
        ];
        println!("decided, let through, misconfigured, unavailable: {counts:?}");
        counts
    }
}

#[track_caller]
fn assert_nobody_passed([decided, let_through, misconfigured, unavailable]: [u64; 4]) {
    assert_eq!((decided, let_through, unavailable), (0, 0, 0));
    assert!(misconfigured >= u64::from(CALLERS));
}

/// How far the server is, and how long a decision may take there.
const DISTANCES: [(u64, u64); 3] = [(2, 100), (60, 250), (60, 1_000)];

async fn without(right: &str) {
    let server = Server::start().await;
    user(&server, &["+@all", right]).await;
    for (each_way, deadline) in DISTANCES {
        let port = far_away(server.port(), Duration::from_millis(each_way)).await;
        let client = client(port, "word");
        client.init().await.unwrap();
        let store = RedisStore::builder(client)
            .deadline(Duration::from_millis(deadline))
            .build();
        let loads = server.command_calls("script|load").await;
        // For longer than a refused load is remembered.
        assert_nobody_passed(Answered::of(&store, Duration::from_millis(2_500)).await);
        let loads = server.command_calls("script|load").await - loads;
        assert!(loads <= 10, "{loads} loads");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_where_scripts_may_not_be_loaded() {
    without("-script|load").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_where_a_script_lacks_a_right() {
    without("-get").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_where_scripts_may_not_be_run() {
    without("-evalsha").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_with_a_wrong_password() {
    let server = Server::start().await;
    user(&server, &["+@all"]).await;
    for (each_way, deadline) in DISTANCES {
        let port = far_away(server.port(), Duration::from_millis(each_way)).await;
        let client = client(port, "another word");
        client.init().await.unwrap_err();
        let store = RedisStore::builder(client)
            .deadline(Duration::from_millis(deadline))
            .build();
        assert_nobody_passed(Answered::of(&store, Duration::from_millis(1_500)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_in_the_midst_of_it_lets_nobody_through_once_it_is_known_and_is_found_when_it_is_back()
 {
    let server = Server::start().await;
    user(&server, &["+@all"]).await;
    let port = far_away(server.port(), Duration::from_millis(40)).await;
    let client = client(port, "word");
    client.init().await.unwrap();
    let store = RedisStore::builder(client)
        .deadline(Duration::from_millis(1_000))
        .build();
    let limiter = RateLimiter::new(Gcra::new(Quota::per_second(1_000_000)), store.clone());
    limiter.check(&7_u32).await.unwrap();
    let _: String = server.command("ACL", &["SETUSER", "app", "-script"]).await;
    let _: String = server.command("SCRIPT", &["FLUSH"]).await;
    limiter.check(&7_u32).await.unwrap_err();
    assert_nobody_passed(Answered::of(&store, Duration::from_millis(1_500)).await);
    // The reason for a late answer is known now.
    server.stop_process();
    let error = limiter.check(&7_u32).await.unwrap_err();
    server.continue_process();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("a moment ago"), "{error}");
    let _: String = server.command("ACL", &["SETUSER", "app", "+script"]).await;
    let given = Instant::now();
    while limiter.check(&7_u32).await.is_err() {
        assert!(given.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(10)).await;
    }
    // After three seconds its misconfiguration is forgotten: a late answer is just late.
    sleep(Duration::from_secs(3)).await;
    server.stop_process();
    let error = limiter.check(&7_u32).await.unwrap_err();
    server.continue_process();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

/// A server that loses a script between the load and the answer to it.
async fn forgetful(server: &Server) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (port, behind) = (listener.local_addr().unwrap().port(), server.port());
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            connections.spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                let mut flush = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let back = async move {
                    let mut bytes = vec![0; 64 << 10];
                    while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
                        // Before any answer, so before the answer to a load.
                        flush.write_all(b"SCRIPT FLUSH\r\n").await.unwrap();
                        let mut flushed = [0; 5];
                        flush.read_exact(&mut flushed).await.unwrap();
                        assert_eq!(&flushed, b"+OK\r\n");
                        to_client.write_all(&bytes[..length]).await.unwrap();
                    }
                };
                let forth = async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                };
                tokio::join!(back, forth);
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_the_script_as_soon_as_it_is_loaded_lets_nobody_through() {
    let server = Server::start().await;
    user(&server, &["+@all"]).await;
    let client = client(forgetful(&server).await, "word");
    client.init().await.unwrap();
    let store = RedisStore::builder(client)
        .deadline(Duration::from_secs(5))
        .build();
    let log = RateLimiter::new(SlidingLog::new(Quota::per_day(9)), store.clone());
    let error = log.check(&7_u32).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("forgets"), "{error}");
    // In a crowd some are decided between the load and its end.
    let [_, let_through, misconfigured, unavailable] =
        Answered::of(&store, Duration::from_millis(500)).await;
    assert_eq!((let_through, unavailable), (0, 0));
    assert!(misconfigured > 0);
}
