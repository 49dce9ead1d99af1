//! A user who may do only what the store needs, of one server, behind Sentinel and in a cluster.
//! Each of these rights is needed.

use std::time::Duration;

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{Builder, CustomCommand, config::Config},
};
use tollgate::{
    Quota, RateLimiter, StoreError, StoreErrorKind, Timestamp,
    algorithm::{FixedWindow, Gcra, SlidingLog},
    clock::ManualClock,
    store::RedisStore,
};
use tollgate_redis_tests::{
    Cluster, Sentinels, Server, connect_to, patient,
    rights::{CHAPTER, OF_A_CLUSTER, OF_A_CONNECT, RIGHTS, as_the_app, set_user},
    slot_of, unconnected,
};

use crate::traffic::PREFIX;

/// What the client needs for another database than the first.
const OF_A_DATABASE: &[&str] = &["+select"];

/// What the client needs to see that a server behind Sentinel is the primary.
const OF_SENTINEL: &[&str] = &["+role"];

async fn connect(config: Config) -> Client {
    let client = unconnected(config);
    if !client.is_clustered() {
        client.init().await.unwrap();
    }
    client
}

fn store(client: Client) -> RedisStore {
    patient(client).build()
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
        both.refuse_until(&key, Timestamp::MAX).await?;
        both.reset(&key).await?;
    }
    Ok(())
}

fn without<'a>(rights: &[&'a str], right: &str) -> Vec<&'a str> {
    let others = rights.iter().filter(|other| **other != right);
    others.copied().collect()
}

/// What this server has refused to anybody, as it logged it.
async fn refused(server: &Server) -> Vec<fred::types::Value> {
    server.command("ACL", &["LOG"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_of_the_docs_leaves_nothing_in_the_acl_log() {
    let server = Server::start().await;
    let rights = [&RIGHTS[..], OF_A_CONNECT].concat();
    set_user(&server, &rights).await;
    let client = connect(as_the_app(server.config())).await;
    let store = store(client.clone());
    everything(&store, 0..1).await.unwrap();
    let _: i64 = server.command("CLIENT", &["KILL", "USER", "app"]).await;
    let again = async || everything(&store, 0..1).await.ok();
    tollgate_redis_tests::until("decisions", again).await;
    let log = refused(&server).await;
    assert!(log.is_empty(), "{log:?}");
    for right in OF_A_CONNECT {
        set_user(&server, &without(&rights, right)).await;
        connect(as_the_app(server.config())).await;
        assert_eq!(refused(&server).await.len(), 1, "nobody asks for {right}");
        let _: String = server.command("ACL", &["LOG", "RESET"]).await;
    }
}

#[test]
fn these_are_the_rights_that_the_docs_name() {
    for (what, rights) in [
        ("In a cluster", OF_A_CLUSTER),
        ("a database other than 0", OF_A_DATABASE),
        ("behind Sentinel", OF_SENTINEL),
    ] {
        let also = format!("{what} also `{}`", rights.join(" "));
        assert!(CHAPTER.contains(&also), "{also}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_these_rights_is_needed() {
    let server = Server::start().await;
    for right in RIGHTS.iter() {
        let _: String = server.command("FLUSHALL", &[]).await;
        let _: String = server.command("SCRIPT", &["FLUSH"]).await;
        set_user(&server, &without(&RIGHTS, right)).await;
        let store = store(connect(as_the_app(server.config())).await);
        let Err(error) = everything(&store, 0..1).await else {
            panic!("nobody needs {right}");
        };
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
    set_user(&server, &[&RIGHTS[..], &["resetkeys", "~other:*"]].concat()).await;
    let store = store(connect(as_the_app(server.config())).await);
    let error = everything(&store, 0..1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_clock_of_its_own_a_store_needs_no_time() {
    let server = Server::start().await;
    for (rights, is_enough) in [
        (without(&RIGHTS, "+time"), true),
        (without(&RIGHTS, "+pexpire"), false),
    ] {
        let _: String = server.command("FLUSHALL", &[]).await;
        set_user(&server, &rights).await;
        let client = connect(as_the_app(server.config())).await;
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let done = everything(&patient(client).clock(clock).build(), 0..1).await;
        assert_eq!(done.is_ok(), is_enough, "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_another_database_the_client_needs_one_right_more() {
    let server = Server::start().await;
    let config = || Config {
        database: Some(1),
        ..as_the_app(server.config())
    };
    set_user(&server, &RIGHTS).await;
    let client = Builder::from_config(config()).build().unwrap();
    let error = everything(&store(client), 0..1).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    set_user(&server, &[&RIGHTS[..], OF_A_DATABASE].concat()).await;
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
    let config = as_the_app(sentinels.config());
    let rights = [&RIGHTS[..], OF_A_CONNECT, OF_SENTINEL].concat();
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
    let config = || as_the_app(cluster.config());
    let limit = || Gcra::new(Quota::per_day(9));
    let rights = [&RIGHTS[..], OF_A_CLUSTER].concat();
    for node in cluster.nodes() {
        set_user(node, &rights).await;
    }
    let with_all = store(connect(config()).await);
    everything(&with_all, 0..9).await.unwrap();

    // A new key: what was charged before is kept a while longer.
    let limiter = RateLimiter::new(limit(), with_all);
    limiter.check(&77_u32).await.unwrap();
    let keys = cluster.keys(PREFIX).await;
    let key = keys.iter().find(|key| key.ends_with(b":77;}")).unwrap();
    let slot = slot_of(key);
    let from = cluster.owner_of(slot).await;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await;
    cluster.move_keys(slot, from, to).await;
    limiter.check(&77_u32).await.unwrap();
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
