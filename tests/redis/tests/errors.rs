//! Whose fault each error is, in the words of real servers, and that it says so.

use std::time::Duration;

use fred::types::Builder;
use tollgate::{
    Quota, RateLimiter, StoreError, StoreErrorKind,
    algorithm::{Gcra, InFlight},
    store::RedisStore,
};
use tollgate_redis_tests::{
    Cluster, Proxy, Server, centralized, comes, connect, unconnected, until,
};

use crate::traffic::{plenty, store};

async fn error_of(store: &RedisStore) -> StoreError {
    RateLimiter::new(plenty(), store.clone())
        .check(&7_u32)
        .await
        .unwrap_err()
}

#[track_caller]
fn assert_says(error: &StoreError, kind: StoreErrorKind, words: &str) {
    println!("{error}");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test]
async fn a_client_need_not_be_connected_nor_have_a_reconnect_policy() {
    let server = Server::start().await;
    let client = Builder::from_config(server.config()).build().unwrap();
    let limiter = RateLimiter::new(plenty(), store(client));
    assert!(limiter.check(&7_u32).await.unwrap().is_admitted());
    server.kill();
    server.restart().await;
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
}

#[tokio::test]
async fn an_address_where_nobody_answers_says_so() {
    let server = Server::start().await;
    let store = store(unconnected(server.config()));
    server.kill();
    let error = error_of(&store).await;
    let words = "no connection to Redis";
    assert_says(&error, StoreErrorKind::Unavailable, words);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_says_so() {
    let server = Server::start_with(&["--requirepass", "secret"]).await;
    let with_a_wrong_one = store(unconnected(server.config_of("default", "other")));
    let error = error_of(&with_a_wrong_one).await;
    assert_says(&error, StoreErrorKind::Misconfigured, "WRONGPASS");

    let error = error_of(&store(unconnected(server.config()))).await;
    assert_says(&error, StoreErrorKind::Misconfigured, "NOAUTH");
}

/// The error of a call without an answer is that of a moment ago, but Redis ran the script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_nobody_was_told_of_is_given_back_whatever_the_error_is_called() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::ZERO).await;
    let limiter = |store| {
        let limit = InFlight::new(1).held_at_most(Duration::from_secs(3_600));
        RateLimiter::new(limit, store)
    };
    let near = limiter(store(server.client().await));
    drop(near.hold("alice", 1).await.unwrap().unwrap());
    let builder = RedisStore::builder(connect(centralized(proxy.port())).await);
    let far = builder.deadline(Duration::from_millis(400)).build();
    let _: String = (server.command("ACL", &["SETUSER", "default", "-script"])).await;
    let error = error_of(&far).await;
    assert_says(&error, StoreErrorKind::Misconfigured, "NOPERM");

    proxy.set_delay(Duration::from_millis(250));
    let far = limiter(far);
    let error = far.hold("bob", 1).await.unwrap_err();
    assert_says(&error, StoreErrorKind::Misconfigured, "a moment ago");
    let remaining = async || near.peek("bob").await.unwrap().remaining();
    comes("a place", async || remaining().await == 1).await;
}

#[tokio::test]
async fn a_server_says_what_is_the_matter() {
    use StoreErrorKind::{Misconfigured, Unavailable};
    let set = |name, value| vec!["CONFIG", "SET", name, value];
    let user = |rule| vec!["ACL", "SETUSER", "default", rule];
    let replica = || vec!["REPLICAOF", "127.0.0.1", "1"];
    let stale = set("replica-serve-stale-data", "no");
    for (commands, kind, words) in [
        (vec![set("maxmemory", "1")], Unavailable, "OOM"),
        (
            vec![set("min-replicas-to-write", "1")],
            Unavailable,
            "NOREPLICAS",
        ),
        (vec![replica()], Unavailable, "READONLY"),
        (vec![replica(), stale], Unavailable, "MASTERDOWN"),
        (vec![user("-evalsha")], Misconfigured, "NOPERM"),
        (vec![user("-script")], Misconfigured, "NOPERM"),
        (vec![user("resetkeys")], Misconfigured, "NOPERM"),
    ] {
        let server = Server::start().await;
        let store = store(server.client().await);
        for command in commands {
            let _: String = server.command(command[0], &command[1..]).await;
        }
        assert_says(&error_of(&store).await, kind, words);
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_says_so() {
    let server = Server::start().await;
    let store = store(server.client().await);
    let folder: Vec<String> = server.command("CONFIG", &["GET", "dir"]).await;
    std::fs::remove_dir_all(&folder[1]).unwrap();
    let set = ["SET", "save", "3600 1"];
    let _: String = server.command("CONFIG", &set).await;
    let _: String = server.command("BGSAVE", &[]).await;
    let limiter = RateLimiter::new(plenty(), store);
    let failed = async || limiter.check(&7_u32).await.err();
    let error = until("a save that fails", failed).await;
    assert_says(&error, StoreErrorKind::Unavailable, "MISCONF");
}

#[tokio::test]
async fn a_server_that_is_loading_says_so() {
    let args = ["--rdbcompression", "no", "--key-load-delay", "30000"];
    let server = Server::start_with(&args).await;
    let store = store(server.client().await);
    let fill =
        "for i = 1, 60 do redis.call('SETEX', 'other:' .. i, 999, string.rep('a', 100000)) end";
    let _: Option<String> = server.command("EVAL", &[fill, "0"]).await;
    let _: String = server.command("SAVE", &[]).await;
    let limiter = RateLimiter::new(plenty(), store);
    limiter.check(&7_u32).await.unwrap();
    let loading = async {
        until("a server that loads", async || {
            let error = limiter.check(&7_u32).await.err()?;
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            error.to_string().contains("LOADING").then_some(())
        })
        .await;
    };
    tokio::join!(server.restart(), loading);
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_that_is_taken_for_a_server_alone_says_so() {
    let cluster = Cluster::start().await;
    let store = store(cluster.nodes()[0].client().await);
    let limiter = RateLimiter::new(Gcra::new(Quota::per_day(5)), store);
    let mut errors = Vec::new();
    for key in 0..30_u32 {
        errors.extend(limiter.check(&key).await.err());
    }
    assert!(!errors.is_empty());
    for error in errors {
        assert_says(&error, StoreErrorKind::Misconfigured, "is a cluster");
    }
}
