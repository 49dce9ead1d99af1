//! A store that is set up wrongly lets nobody through, whatever the choice: in a crowd, and however
//! far away the server is.

use std::time::Duration;

use fred::{clients::Client, interfaces::ClientLike, types::config::Config};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    EachOf, OnStoreError, Quota, RateLimiter, StoreErrorKind,
    algorithm::SlidingLog,
    store::{LocalStore, RedisStore},
};
use tollgate_redis_tests::{
    Cluster, Proxy, Server, centralized, patient,
    rights::{as_the_app, set_user},
    slot_of, unconnected,
};

use crate::traffic::{Answer, Seen, Traffic, count, limited, plenty};

/// So many callers come at once, each again and again.
const CALLERS: u32 = 300;

fn client(port: u16, password: &str) -> Client {
    unconnected(Config {
        password: Some(password.to_owned()),
        ..as_the_app(centralized(port))
    })
}

/// The answers to a crowd, through layers that admit without a decision if they may.
async fn answers(store: &RedisStore, lasting: Duration) -> Vec<Seen> {
    let here = RateLimiter::new(plenty(), LocalStore::new());
    let services = [
        limited(plenty(), store, OnStoreError::Admit),
        limited(plenty(), store, here),
    ];
    let traffic = Traffic::of(CALLERS, &services);
    sleep(lasting).await;
    traffic.end_in_any_time().await
}

async fn nobody_passes(store: &RedisStore, lasting: Duration) {
    let seen = answers(store, lasting).await;
    assert_eq!(count(&seen, Answer::Misconfigured), seen.len());
    assert!(seen.len() >= CALLERS as usize);
}

/// How far the server is, and how long a decision may take there.
const DISTANCES: [(u64, u64); 3] = [(2, 100), (60, 250), (60, 1_000)];

async fn nobody_passes_however_far_it_is(server: &Server, password: &str) {
    for (each_way, deadline) in DISTANCES {
        let proxy = Proxy::start(server.port(), Duration::from_millis(each_way)).await;
        let client = client(proxy.port(), password);
        assert_eq!(client.init().await.is_ok(), password == "word");
        let store = RedisStore::builder(client).deadline(Duration::from_millis(deadline));
        let store = store.build();
        let loads = server.command_calls("script").await;
        // For longer than a refused load is remembered.
        nobody_passes(&store, Duration::from_millis(2_500)).await;
        let loads = server.command_calls("script").await - loads;
        assert!(loads <= 10, "{loads} loads");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_where_scripts_may_not_be_loaded_or_run_or_lack_a_right() {
    for right in ["-script", "-evalsha", "-get"] {
        let server = Server::start().await;
        set_user(&server, &["+@all", right]).await;
        nobody_passes_however_far_it_is(&server, "word").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_with_a_wrong_password() {
    let server = Server::start().await;
    set_user(&server, &["+@all"]).await;
    nobody_passes_however_far_it_is(&server, "another word").await;
}

/// It may take four deadlines: longer than the second in which no script has run yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_passes_while_the_first_attempt_to_connect_lasts() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let store = RedisStore::builder(unconnected(centralized(port)));
    let store = store.deadline(Duration::from_millis(500)).build();
    nobody_passes(&store, Duration::from_millis(1_300)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_in_the_midst_of_it_lets_nobody_through_once_it_is_known_and_is_found_when_it_is_back()
 {
    let server = Server::start().await;
    set_user(&server, &["+@all"]).await;
    let proxy = Proxy::start(server.port(), Duration::from_millis(40)).await;
    let client = client(proxy.port(), "word");
    client.init().await.unwrap();
    let store = RedisStore::builder(client).deadline(Duration::from_secs(1));
    let store = store.build();
    let limiter = RateLimiter::new(plenty(), store.clone());
    limiter.check(&7_u32).await.unwrap();
    let _: String = server.command("ACL", &["SETUSER", "app", "-script"]).await;
    let _: String = server.command("SCRIPT", &["FLUSH"]).await;
    limiter.check(&7_u32).await.unwrap_err();
    nobody_passes(&store, Duration::from_millis(1_500)).await;
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
    set_user(&server, &["+@all"]).await;
    let client = client(forgetful(&server).await, "word");
    client.init().await.unwrap();
    let store = patient(client).build();
    let log = RateLimiter::new(SlidingLog::new(Quota::per_day(9)), store.clone());
    let error = log.check(&7_u32).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("forgets"), "{error}");
    // In a crowd some are decided between the load and its end.
    let seen = answers(&store, Duration::from_millis(500)).await;
    let misconfigured = count(&seen, Answer::Misconfigured);
    assert_eq!(misconfigured + count(&seen, Answer::Admitted), seen.len());
    assert!(misconfigured > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_keys_a_node_that_denies_a_right_is_told_also_where_another_hangs() {
    let cluster = Cluster::start().await;
    let store = RedisStore::builder(cluster.client().await).deadline(Duration::from_millis(300));
    let store = store.build();
    let (rule, other) = (plenty(), SlidingLog::new(Quota::per_day(9)));
    let rules = (
        RateLimiter::new(rule.clone(), store.clone()),
        RateLimiter::new(other.clone(), store.clone()),
    );
    rules.0.check(&7_u32).await.unwrap();
    let owner_of = async |key: &[u8]| cluster.owner_of(slot_of(key)).await;
    let hangs = owner_of(&cluster.keys("tollgate").await[0]).await;
    let mut denies = None;
    for key in 0..40_u32 {
        let before = cluster.keys("tollgate").await;
        rules.1.check(&key).await.unwrap();
        let all = cluster.keys("tollgate").await;
        let kept = all.iter().find(|kept| !before.contains(kept));
        let owner = owner_of(kept.expect("its state")).await;
        if owner != hangs {
            denies = Some((key, owner));
            break;
        }
    }
    let (key, denies) = denies.expect("a key on another node");
    let both = RateLimiter::new(EachOf((rule, other)), store);
    let keys = EachOf((Some(7_u32), Some(key)));
    assert!(both.check(&keys).await.unwrap().is_admitted());

    let denies = &cluster.nodes()[denies];
    let _: String = denies.command("ACL", &["SETUSER", "default", "-get"]).await;
    cluster.nodes()[hangs].stop_process();
    let (looked, charged) = tokio::join!(both.peek(&keys), both.check(&keys));
    cluster.nodes()[hangs].continue_process();
    for error in [looked.unwrap_err(), charged.unwrap_err()] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
}
