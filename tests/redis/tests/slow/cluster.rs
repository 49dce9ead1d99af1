//! A real cluster under load, whose slots move.

use fred::{
    clients::Client,
    interfaces::{ClientLike, KeysInterface},
    types::Builder,
};
use tollgate::{OnStoreError, RateLimiter};
use tollgate_redis_tests::{Cluster, comes, slot_of, until};

use crate::traffic::{Answer, PREFIX, Traffic, charged, plenty, store};

/// A client as its builder makes it, with all defaults; the store connects one of its own.
pub(super) fn client(cluster: &Cluster) -> Client {
    Builder::from_config(cluster.config()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_load_is_followed_and_counts_once() {
    let cluster = Cluster::start().await;
    let callers = client(&cluster);
    callers.init().await.unwrap();
    let store = store(callers.clone());
    let traffic = Traffic::through(&store, OnStoreError::Refuse);
    traffic.is_decided().await;
    // A slot that is in use already, and moves as a whole.
    let key = cluster.keys(PREFIX).await[0].clone();
    let slot = slot_of(&key);
    let from = cluster.owner_of(slot).await;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await;
    traffic.is_decided().await;
    cluster.move_keys(slot, from, to).await;
    traffic.is_decided().await;
    // The caller's own client is left alone.
    for number in 0..300_u32 {
        let key = format!("mine:{number}");
        let () = callers.set(&key, number, None, None, false).await.unwrap();
        assert_eq!(callers.get::<u32, _>(&key).await.unwrap(), number);
    }
    cluster.end_migration(slot, from, to).await;
    traffic.is_decided().await;
    let seen = traffic.end().await;
    let unavailable = seen.iter().filter(|seen| seen.answer != Answer::Admitted);
    assert_eq!(unavailable.count(), 0);
    assert_eq!(charged(&store).await, seen.len() as u64);
    assert_eq!(cluster.keys_without_ttl(PREFIX).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_its_own_end_with_the_store() {
    let cluster = Cluster::start().await;
    let connections = async || -> u32 {
        let mut all = 0;
        for node in cluster.nodes() {
            let clients = node.info_field("clients", "connected_clients").await;
            all += clients.unwrap().parse::<u32>().unwrap();
        }
        all
    };
    let before = connections().await;
    let limiter = RateLimiter::new(plenty(), store(client(&cluster)));
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
    assert!(connections().await > before);
    drop(limiter);
    comes("their end", async || connections().await <= before).await;
}
