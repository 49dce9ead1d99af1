//! A user who may do only what the store needs, behind TLS and in a cluster. Each of these rights
//! is needed.

use std::time::Duration;

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        Builder, CustomCommand,
        config::{Config, ReconnectPolicy},
    },
};
use tollgate::{
    Quota, RateLimiter, StoreError, StoreErrorKind,
    algorithm::{FixedWindow, Gcra, SlidingLog},
    clock::{ManualClock, Timestamp},
    store::RedisStore,
};
use tollgate_redis_tests::{Cluster, Sentinels, Server, TlsServer, connect_to, slot_of};

use crate::traffic::PREFIX;

/// What the store needs of one server.
const RIGHTS: &[&str] = &[
    "+evalsha",
    "+script|load",
    "+time",
    "+get",
    "+set",
    "+setrange",
    "+pexpire",
    "+rpush",
    "+rpushx",
    "+ltrim",
    "+lindex",
    "+del",
];

/// What the client asks about itself and the server's version when it connects. It works without
/// the answers, but each refusal is a line in the server's `ACL LOG`.
const OF_A_CONNECT: &[&str] = &["+client|id", "+info"];

/// What the client needs for another database than the first.
const OF_A_DATABASE: &[&str] = &["+select"];

/// What the client needs to see that a server behind Sentinel is the primary.
const OF_SENTINEL: &[&str] = &["+role"];

/// What the store needs to find the nodes of a cluster, and to follow a slot that moves.
const OF_A_CLUSTER: &[&str] = &["+cluster|slots", "+asking"];

fn user(rights: &[&str]) -> Vec<String> {
    let words = ["SETUSER", "app", "reset", "on", ">word", "~tollgate:*"];
    let words = words.iter().chain(rights);
    words.map(|word| (*word).to_owned()).collect()
}

async fn set_user(server: &Server, rights: &[&str]) {
    let words = user(rights);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let _: String = server.command("ACL", &words).await;
}

async fn connect(config: Config) -> Client {
    let policy = ReconnectPolicy::new_constant(0, 50);
    let client = Builder::from_config(config).set_policy(policy).build();
    let client = client.unwrap();
    if !client.is_clustered() {
        client.init().await.unwrap();
    }
    client
}

fn store(client: Client) -> RedisStore {
    RedisStore::builder(client)
        .deadline(Duration::from_secs(5))
        .build()
}

/// Every operation of a store, for rules that keep numbers and for one that keeps a log.
async fn everything(store: &RedisStore, keys: std::ops::Range<u32>) -> Result<(), StoreError> {
    let gcra = RateLimiter::new(Gcra::new(Quota::per_minute(4)), store.clone());
    let log = SlidingLog::new(Quota::new(3, Duration::from_millis(30)));
    let log = RateLimiter::new(log, store.clone());
    let window = FixedWindow::new(Quota::per_day(3));
    let both = RateLimiter::new((window, SlidingLog::new(Quota::per_day(3))), store.clone());
    for key in keys {
        for _ in 0..5 {
            gcra.check(&key).await?;
            log.check(&key).await?;
            both.check(&key).await?;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        for _ in 0..5 {
            log.check(&key).await?;
            tokio::time::sleep(Duration::from_millis(12)).await;
        }
        gcra.peek(&key).await?;
        log.peek(&key).await?;
        gcra.debit(&key, 1).await?;
        log.debit(&key, 1).await?;
        both.debit(&key, 1).await?;
        gcra.refund(&key, 1).await?;
        log.refund(&key, 1).await?;
        both.refund(&key, 1).await?;
        gcra.reset(&key).await?;
        both.reset(&key).await?;
    }
    Ok(())
}

fn without<'a>(rights: &[&'a str], right: &str) -> Vec<&'a str> {
    let others = rights.iter().filter(|other| **other != right);
    others.copied().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_tls_a_user_with_these_rights_is_enough() {
    let off = ["--user", "default", "off"];
    let server = TlsServer::start_with(&off).await;
    set_user(server.server(), RIGHTS).await;
    let store = store(connect(server.config("app", "word")).await);
    everything(&store, 0..3).await.unwrap();
    let keys = server.server().keys("").await;
    assert!(keys.iter().all(|key| key.starts_with(PREFIX.as_bytes())));
    assert_eq!(server.server().keys_without_ttl("").await, [""; 0]);
    server.server().kill();
    server.server().restart().await;
    set_user(server.server(), RIGHTS).await;
    tollgate_redis_tests::until("decisions", async || everything(&store, 0..1).await.ok()).await;
}

/// What this server has refused to anybody, as it logged it.
async fn refused(server: &Server) -> Vec<fred::types::Value> {
    server.command("ACL", &["LOG"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_docs_leaves_nothing_in_the_acl_log() {
    let server = Server::start().await;
    let rights = [RIGHTS, OF_A_CONNECT].concat();
    set_user(&server, &rights).await;
    let client = connect(server.config_of("app", "word")).await;
    let store = store(client.clone());
    everything(&store, 0..1).await.unwrap();
    let _: i64 = server.command("CLIENT", &["KILL", "USER", "app"]).await;
    let again = async || everything(&store, 0..1).await.ok();
    tollgate_redis_tests::until("decisions", again).await;
    let log = refused(&server).await;
    assert!(log.is_empty(), "{log:?}");
    for right in OF_A_CONNECT {
        set_user(&server, &without(&rights, right)).await;
        connect(server.config_of("app", "word")).await;
        assert_eq!(refused(&server).await.len(), 1, "nobody asks for {right}");
        let _: String = server.command("ACL", &["LOG", "RESET"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn these_are_the_rights_that_the_docs_name() {
    let chapter = include_str!("../../../../src/docs/operating_redis.md");
    let start = chapter.find("ACL SETUSER tollgate on").unwrap();
    let block = chapter[start..].split("```").next().unwrap();
    // On several lines, as pasted, only the first would take effect.
    assert_eq!(block.trim_end().lines().count(), 1);
    let words: Vec<_> = block.split_whitespace().skip(3).collect();
    let (first, rights) = words.split_at(4);
    assert_eq!(first, ["on", ">password", "~tollgate:*", "-@all"]);
    assert_eq!(rights, [RIGHTS, OF_A_CONNECT].concat());
    let also = format!("In a cluster also `{}`", OF_A_CLUSTER.join(" "));
    assert!(chapter.contains(&also), "{also}");
    let beside = format!("a database other than 0 also `{}`", OF_A_DATABASE[0]);
    assert!(chapter.contains(&beside), "{beside}");
    let behind = format!("behind Sentinel also `{}`", OF_SENTINEL[0]);
    assert!(chapter.contains(&behind), "{behind}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_these_rights_is_needed() {
    let server = Server::start().await;
    for right in RIGHTS {
        let _: String = server.command("FLUSHALL", &[]).await;
        let _: String = server.command("SCRIPT", &["FLUSH"]).await;
        set_user(&server, &without(RIGHTS, right)).await;
        let store = store(connect(server.config_of("app", "word")).await);
        let Err(error) = everything(&store, 0..1).await else {
            panic!("nobody needs {right}");
        };
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
    set_user(&server, &[RIGHTS, &["resetkeys", "~other:*"]].concat()).await;
    let store = store(connect(server.config_of("app", "word")).await);
    let error = everything(&store, 0..1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_clock_of_its_own_a_store_needs_no_time() {
    let server = Server::start().await;
    for (rights, is_enough) in [
        (without(RIGHTS, "+time"), true),
        (without(RIGHTS, "+pexpire"), false),
    ] {
        let _: String = server.command("FLUSHALL", &[]).await;
        set_user(&server, &rights).await;
        let client = connect(server.config_of("app", "word")).await;
        let store = RedisStore::builder(client)
            .deadline(Duration::from_secs(5))
            .clock(ManualClock::at(Timestamp::from_micros(
                1_700_000_000_000_000,
            )))
            .build();
        let done = everything(&store, 0..1).await;
        assert_eq!(done.is_ok(), is_enough, "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_another_database_the_client_needs_one_right_more() {
    let server = Server::start().await;
    let config = || Config {
        database: Some(1),
        ..server.config_of("app", "word")
    };
    set_user(&server, RIGHTS).await;
    let client = Builder::from_config(config()).build().unwrap();
    let error = everything(&store(client), 0..1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    set_user(&server, &[RIGHTS, OF_A_DATABASE].concat()).await;
    let client = Builder::from_config(config()).build().unwrap();
    everything(&store(client), 0..1).await.unwrap();
    assert_eq!(server.keys("").await, [""; 0]); // of the first database
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinel_the_client_needs_one_right_more() {
    let sentinels = Sentinels::start().await;
    // The client says the same name and password to the sentinels.
    for port in sentinels.ports() {
        let sentinel = connect_to(port).await;
        let command = CustomCommand::new_static("ACL", None, false);
        let words = ["SETUSER", "app", "on", ">word", "+@all"];
        let _: String = sentinel.custom(command, words.to_vec()).await.unwrap();
    }
    let config = Config {
        username: Some("app".to_owned()),
        password: Some("word".to_owned()),
        ..sentinels.config()
    };
    let rights = [RIGHTS, OF_A_CONNECT, OF_SENTINEL].concat();
    let primary = sentinels.primary().await;
    set_user(primary, &without(&rights, OF_SENTINEL[0])).await;
    let client = Builder::from_config(config.clone()).build().unwrap();
    client.init().await.unwrap_err();
    let _: String = primary.command("ACL", &["LOG", "RESET"]).await;
    set_user(primary, &rights).await;
    let store = store(connect(config).await);
    everything(&store, 0..1).await.unwrap();
    let log = refused(primary).await;
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_user_with_these_rights_is_enough_and_each_is_needed() {
    let cluster = Cluster::start().await;
    let config = || Config {
        username: Some("app".to_owned()),
        password: Some("word".to_owned()),
        ..cluster.config()
    };
    let limit = || Gcra::new(Quota::per_day(9));
    let rights = [RIGHTS, OF_A_CLUSTER].concat();
    for node in cluster.nodes() {
        set_user(node, &rights).await;
    }
    let with_all = store(connect(config()).await);
    everything(&with_all, 0..9).await.unwrap();

    // A new key: what was charged before is kept a while longer.
    RateLimiter::new(limit(), with_all.clone())
        .check(&77_u32)
        .await
        .unwrap();
    let keys = cluster.keys(PREFIX).await;
    let key = keys.iter().find(|key| key.ends_with(b":77;}")).unwrap();
    let slot = slot_of(key);
    let from = cluster.owner_of(slot).await;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await;
    cluster.move_keys(slot, from, to).await;
    RateLimiter::new(limit(), with_all)
        .check(&77_u32)
        .await
        .unwrap();
    for right in OF_A_CLUSTER {
        for node in cluster.nodes() {
            set_user(node, &without(&rights, right)).await;
            let _: String = node.command("SCRIPT", &["FLUSH"]).await;
        }
        let store = RedisStore::builder(connect(config()).await)
            .deadline(Duration::from_secs(2))
            .build();
        let done = RateLimiter::new(limit(), store).check(&77_u32).await;
        let Err(error) = done else {
            panic!("nobody needs {right}");
        };
        println!("{right}: {error}");
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
    cluster.end_migration(slot, from, to).await;
}
