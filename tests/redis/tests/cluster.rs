//! A real cluster under load: keys in one slot, slots that move, and primaries that die.

mod traffic;

use std::time::Duration;

use fred::{clients::Client, types::Builder};
use tokio::time::sleep;
use tollgate::{
    OnStoreError, Quota, RateLimiter,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, Scripted, SlidingBuckets, SlidingLog, SlidingWindow,
        TokenBucket,
    },
    store::RedisStore,
};
use tollgate_redis_tests::{Cluster, slot_of};

use traffic::{Answer, PREFIX, Traffic, store};

/// A client as its builder makes it, with all defaults; the store connects one of its own.
fn client(cluster: &Cluster) -> Client {
    Builder::from_config(cluster.config()).build().unwrap()
}

async fn admits_and_refuses<A>(store: &RedisStore, rule: A)
where
    A: Scripted<Snapshot: Send + Sync> + Clone + Send + Sync + 'static,
{
    let limiter = RateLimiter::new(rule, store.clone());
    for key in 0..30_u32 {
        let first = limiter.check(&key).await.unwrap();
        assert!(first.is_admitted(), "{first:?}");
        let second = limiter.check(&key).await.unwrap();
        assert!(!second.is_admitted(), "{second:?}");
        assert!(!limiter.peek(&key).await.unwrap().is_admitted());
        limiter.refund(&key, 1).await.unwrap();
        limiter.reset(&key).await.unwrap();
        assert!(limiter.check(&key).await.unwrap().is_admitted());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_and_tuple_decides_on_every_node() {
    let cluster = Cluster::start().await;
    let store = RedisStore::builder(client(&cluster))
        .deadline(Duration::from_secs(5))
        .build();
    let one = Quota::per_hour(1);
    admits_and_refuses(&store, Gcra::new(one)).await;
    admits_and_refuses(&store, TokenBucket::new(one)).await;
    admits_and_refuses(&store, LeakyBucket::new(one)).await;
    admits_and_refuses(&store, FixedWindow::new(one)).await;
    admits_and_refuses(&store, SlidingWindow::new(one)).await;
    admits_and_refuses(&store, SlidingLog::new(one)).await;
    admits_and_refuses(&store, SlidingBuckets::new(one, Duration::from_secs(60))).await;
    let tuple = (SlidingLog::new(one), Gcra::new(Quota::per_day(9)));
    admits_and_refuses(&store, tuple.clone()).await;
    let tuple = (SlidingLog::new(Quota::per_day(8)), tuple.0);
    admits_and_refuses(&store, tuple).await;
    for node in 0..3 {
        assert!(!cluster.nodes()[node].keys(PREFIX).await.is_empty());
    }
    assert_eq!(cluster.keys_without_ttl(PREFIX).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_load_is_followed_and_counts_once() {
    let cluster = Cluster::start().await;
    let store = store(client(&cluster));
    let rule = FixedWindow::new(Quota::new(10_000_000, Duration::from_secs(400 * 86_400)));
    let limiter = RateLimiter::new(rule.clone(), store.clone());
    let traffic = Traffic::through(&store, rule, OnStoreError::Refuse);
    traffic.is_decided().await;
    // One that is in use already, and goes as a whole.
    let key = cluster.keys(PREFIX).await[0].clone();
    let slot = slot_of(&key);
    let from = cluster.owner_of(slot).await;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await;
    traffic.is_decided().await;
    cluster.move_keys(slot, from, to).await;
    traffic.is_decided().await;
    sleep(Duration::from_millis(300)).await;
    cluster.end_migration(slot, from, to).await;
    traffic.is_decided().await;
    let seen = traffic.end().await;
    let unavailable = seen.iter().filter(|seen| seen.answer != Answer::Admitted);
    assert_eq!(unavailable.count(), 0);
    let mut charged = 0;
    for key in 0..24_u32 {
        charged += 10_000_000 - limiter.peek(&key).await.unwrap().remaining();
    }
    assert_eq!(charged, seen.len() as u64);
    assert_eq!(cluster.keys_without_ttl(PREFIX).await, [""; 0]);
}
