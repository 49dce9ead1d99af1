//! A real cluster under load: keys in one slot, slots that move, and primaries that die.

use std::time::Duration;

use fred::{clients::Client, interfaces::KeysInterface, types::Builder};
use tokio::time::{Instant, sleep};
use tollgate::{OnStoreError, Quota, RateLimiter, algorithm::*, store::RedisStore};
use tollgate_redis_tests::{Cluster, slot_of, until};

use crate::traffic::{Answer, PREFIX, Traffic, UNITS, plenty, recovery, store};

/// A client as its builder makes it, with all defaults; the store connects one of its own.
fn client(cluster: &Cluster) -> Client {
    Builder::from_config(cluster.config()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_load_is_followed_and_counts_once() {
    let cluster = Cluster::start().await;
    let store = store(client(&cluster));
    let limiter = RateLimiter::new(plenty(), store.clone());
    let traffic = Traffic::through(&store, plenty(), OnStoreError::Refuse);
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
    sleep(Duration::from_millis(300)).await;
    cluster.end_migration(slot, from, to).await;
    traffic.is_decided().await;
    let seen = traffic.end().await;
    let unavailable = seen.iter().filter(|seen| seen.answer != Answer::Admitted);
    assert_eq!(unavailable.count(), 0);
    let mut charged = 0;
    for key in 0..24_u32 {
        charged += UNITS - limiter.peek(&key).await.unwrap().remaining();
    }
    assert_eq!(charged, seen.len() as u64);
    assert_eq!(cluster.keys_without_ttl(PREFIX).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_dies_is_not_waited_for_and_its_replica_decides() {
    let cluster = Cluster::start().await;
    let store = store(client(&cluster));
    let refused = Traffic::through(&store, plenty(), OnStoreError::Refuse);
    let admitted = Traffic::through(&store, plenty(), OnStoreError::Admit);
    refused.is_decided().await;
    admitted.is_decided().await;
    let key = cluster.keys(PREFIX).await[0].clone();
    let first = cluster.kill_owner_of(slot_of(&key)).await;
    refused.is_answered(Answer::Unavailable).await;
    admitted.is_answered(Answer::Undecided).await;
    cluster.wait_for_failover(slot_of(&key), first).await;
    let over = Instant::now();
    refused.is_decided().await;
    admitted.is_decided().await;
    sleep(Duration::from_millis(500)).await;
    for (traffic, answer) in [
        (refused, Answer::Unavailable),
        (admitted, Answer::Undecided),
    ] {
        let seen = traffic.end().await;
        for seen in &seen {
            assert!(
                [Answer::Admitted, answer].contains(&seen.answer),
                "{seen:?}"
            );
        }
        let recovery = recovery(&seen, over);
        assert!(recovery < Duration::from_secs(2), "{recovery:?}");
    }
    cluster.nodes()[first].restart().await;
    cluster.wait_until_ok().await;
    assert_eq!(cluster.keys_without_ttl(PREFIX).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_gone_are_loaded_once_to_each_node() {
    let cluster = Cluster::start().await;
    // No decision is to be late on a busy machine.
    let store = RedisStore::builder(client(&cluster))
        .deadline(Duration::from_millis(900))
        .build();
    let limiter = RateLimiter::new(plenty(), store.clone());
    until("a connection", async || limiter.peek(&7_u32).await.ok()).await;
    let primaries = &cluster.nodes()[..3];
    let mut before = Vec::new();
    for node in primaries {
        // One of them was asked already.
        let _: String = node.command("SCRIPT", &["FLUSH"]).await;
        before.push((node, node.command_calls("script|load").await));
    }
    let traffic = Traffic::through(&store, plenty(), OnStoreError::Refuse);
    for number in 1..=4 {
        traffic.is_decided().await;
        // Every node was asked: otherwise the nodes of some keys might have made all the decisions.
        for (node, before) in &before {
            until("a load", async || {
                let loads = node.command_calls("script|load").await;
                (loads >= before + number).then_some(())
            })
            .await;
        }
        traffic.is_decided().await;
        if number < 4 {
            for node in primaries {
                let _: String = node.command("SCRIPT", &["FLUSH"]).await;
            }
        }
    }
    let seen = traffic.end().await;
    assert!(seen.iter().all(|seen| seen.answer == Answer::Admitted));
    for (node, before) in before {
        assert_eq!(node.command_calls("script|load").await, before + 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exact_limit_is_not_passed_while_its_slot_moves() {
    let cluster = Cluster::start().await;
    let store = store(client(&cluster));
    let rule = FixedWindow::new(Quota::new(5_000, Duration::from_secs(400 * 86_400)));
    let limiter = RateLimiter::new(rule, store);
    limiter.check(&7_u32).await.unwrap();
    let slot = slot_of(&cluster.keys(PREFIX).await[0]);
    let from = cluster.owner_of(slot).await;
    let checks = (0..8).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let (mut admitted, mut failed) = (0, 0);
            loop {
                match limiter.check(&7_u32).await {
                    Ok(decision) if decision.is_admitted() => admitted += 1,
                    Ok(_) => return (admitted, failed),
                    Err(_) => failed += 1,
                }
            }
        })
    });
    let checks: Vec<_> = checks.collect();
    for (from, to) in [(from, (from + 1) % 3), ((from + 1) % 3, from)] {
        cluster.migrate_slot(slot, from, to).await;
    }
    let (mut admitted, mut failed) = (1, 0);
    for check in checks {
        let (more, lost) = check.await.unwrap();
        (admitted, failed) = (admitted + more, failed + lost);
    }
    assert!(
        (5_000 - failed..=5_000).contains(&admitted),
        "{admitted} and {failed} errors"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_callers_own_client_is_left_alone() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    let store = store(client.clone());
    let traffic = Traffic::through(&store, plenty(), OnStoreError::Refuse);
    traffic.is_decided().await;
    let slot = slot_of(&cluster.keys(PREFIX).await[0]);
    let from = cluster.owner_of(slot).await;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await;
    cluster.move_keys(slot, from, to).await;
    for number in 0..300_u32 {
        let key = format!("mine:{number}");
        let () = client.set(&key, number, None, None, false).await.unwrap();
        assert_eq!(client.get::<u32, _>(&key).await.unwrap(), number);
    }
    cluster.end_migration(slot, from, to).await;
    let seen = traffic.end().await;
    assert!(seen.iter().all(|seen| seen.answer == Answer::Admitted));
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
    until("the end of the connections", async || {
        (connections().await <= before).then_some(())
    })
    .await;
}
