//! A connection, a server, a node or a member of a pool that hangs is given up within two seconds,
//! and delays nothing else.

use std::time::Duration;

use fred::{
    clients::{Client, Pool},
    types::{
        Builder,
        config::{Config, ReconnectPolicy},
    },
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    OnStoreError, Quota, RateLimiter, StoreErrorKind, algorithm::SlidingLog, store::RedisStore,
};
use tollgate_redis_tests::{
    Cluster, Proxy, Sentinels, Server, centralized, comes, crowd, slot_of, until,
};

use crate::traffic::{Answer, PREFIX, Seen, Traffic, UNITS, plenty, store};

/// From the first decision that missed its deadline to the first one that was made again.
const WANTED: Duration = Duration::from_secs(2);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(1);

/// A client with all of fred's defaults, under which a handshake may take ten seconds.
fn with_defaults(config: Config) -> Client {
    Builder::from_config(config).build().unwrap()
}

/// A client that is careful about connections that do not answer.
fn careful(config: Config) -> Client {
    let mut builder = Builder::from_config(config);
    builder.set_policy(ReconnectPolicy::new_exponential(0, 100, 5_000, 2));
    builder.with_connection_config(|connection| {
        connection.tcp.nodelay = Some(true);
        connection.unresponsive.max_timeout = Some(Duration::from_secs(2));
        connection.unresponsive.interval = Duration::from_millis(500);
    });
    builder.build().unwrap()
}

/// From the first answer that failed, after `from`, to the last one.
fn outage(seen: &[Seen], from: Instant) -> Duration {
    let failed = seen
        .iter()
        .filter(|seen| seen.at > from && seen.answer != Answer::Admitted);
    let failed: Vec<_> = failed.map(|seen| seen.at).collect();
    match (failed.iter().min(), failed.iter().max()) {
        (Some(first), Some(last)) => *last - *first,
        _ => Duration::ZERO,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_stops_forwarding_is_made_anew_whatever_the_clients_settings() {
    for client in [with_defaults, careful] {
        let server = Server::start().await;
        let proxy = Proxy::start(server.port(), Duration::ZERO).await;
        let store = store(client(centralized(proxy.port())));
        let traffic = Traffic::through(&store, OnStoreError::Refuse);
        traffic.is_decided().await;
        assert_eq!(proxy.accepted(), 1);
        proxy.hold_first(1);
        let held = Instant::now();
        traffic.is_answered(Answer::Unavailable).await;
        let answered = proxy.answered_over(0);
        traffic.is_decided().await;
        // Nothing came over the connection that is held: another one was made.
        assert_eq!(proxy.answered_over(0), answered);
        assert!(proxy.accepted() > 1);
        let outage = outage(&traffic.end().await, held);
        let is_short = outage > Duration::ZERO && outage < WANTED + SLACK;
        assert!(is_short, "{outage:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_missed_deadline_is_enough_where_requests_are_rare() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::ZERO).await;
    let limiter = RateLimiter::new(plenty(), store(with_defaults(centralized(proxy.port()))));
    limiter.check(&7_u32).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(proxy.accepted(), 1);
    proxy.hold_first(1);
    limiter.check(&7_u32).await.unwrap_err();
    let missed = Instant::now();
    comes("another connection", async || proxy.accepted() > 1).await;
    assert!(missed.elapsed() < WANTED + SLACK, "{:?}", missed.elapsed());
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_member_of_a_pool_is_left_out_of_the_turns() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::ZERO).await;
    let pool = Pool::new(centralized(proxy.port()), None, None, None, 4).unwrap();
    let store = store(pool);
    let traffic = Traffic::through(&store, OnStoreError::Refuse);
    comes("four connections", async || proxy.accepted() == 4).await;
    traffic.is_decided().await;
    proxy.hold_first(1);
    let held = Instant::now();
    traffic.is_answered_at_all(Answer::Unavailable).await;
    comes("a fifth connection", async || proxy.accepted() > 4).await;
    traffic.is_decided().await;
    let seen = traffic.end().await;
    let failed: Vec<_> = (seen.iter())
        .filter(|seen| seen.at > held && seen.answer != Answer::Admitted)
        .collect();
    // What was sent over it before the first decision had missed its deadline: one for each task at
    // most, and a probe.
    assert!((1..=40).contains(&failed.len()), "{} failed", failed.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinel_a_primary_that_hangs_is_left_for_its_replica() {
    let sentinels = Sentinels::start().await;
    let store = store(with_defaults(sentinels.config()));
    let traffic = Traffic::through(&store, OnStoreError::Refuse);
    traffic.is_decided().await;
    let primary = sentinels.primary().await;
    primary.stop_process();
    traffic.is_answered(Answer::Unavailable).await;
    until("another primary", async || {
        sentinels.names_another_than(primary.port()).await
    })
    .await;
    let promoted = Instant::now();
    traffic.is_decided().await;
    let recovery = crate::traffic::recovery(&traffic.end().await, promoted);
    assert!(recovery < WANTED + SLACK, "{recovery:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_node_of_a_cluster_takes_nothing_from_the_others_and_is_left_for_its_replica() {
    let cluster = Cluster::start_with(&["--cluster-require-full-coverage", "no"]).await;
    let client = with_defaults(cluster.config());
    let store = RedisStore::builder(client)
        .deadline(crate::traffic::DEADLINE)
        .max_unanswered(40)
        .build();
    let everyone = Traffic::through(&store, OnStoreError::Refuse);
    everyone.is_decided().await;
    let (ill, well) = keys_on_and_off(&cluster, &store).await;
    cluster.nodes()[ill.node].stop_process();
    everyone.is_answered(Answer::Unavailable).await;
    // At the node that hangs there are four times as many callers as decisions may be unanswered.
    let limiter = RateLimiter::new(plenty(), store.clone());
    let callers = (0..160).map(|_| {
        let (limiter, key) = (limiter.clone(), ill.key);
        async move {
            while limiter.check(&key).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let callers: JoinSet<_> = callers.collect();
    for _ in 0..100 {
        for key in &well {
            limiter.check(key).await.unwrap();
        }
    }
    let from = ill.node;
    cluster.wait_for_failover(ill.slot, from).await;
    let promoted = Instant::now();
    everyone.is_decided().await;
    callers.join_all().await;
    let recovery = crate::traffic::recovery(&everyone.end().await, promoted);
    assert!(recovery < WANTED + SLACK, "{recovery:?}");
    cluster.nodes()[from].continue_process();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_without_a_replica_stops_its_own_slots_alone() {
    let cluster = Cluster::start_with(&["--cluster-require-full-coverage", "no"]).await;
    let store = store(with_defaults(cluster.config()));
    let (ill, well) = keys_on_and_off(&cluster, &store).await;
    for node in [ill.node + 3, ill.node] {
        cluster.nodes()[node].kill();
    }
    let limiter = RateLimiter::new(plenty(), store);
    // Longer than it takes until the other nodes know that it is down.
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        for key in &well {
            limiter.check(key).await.unwrap();
        }
        let error = limiter.check(&ill.key).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    // A process that starts now decides about them too.
    let fresh = RateLimiter::new(plenty(), self::store(with_defaults(cluster.config())));
    for key in &well {
        until("a decision", async || fresh.check(key).await.ok()).await;
        fresh.check(key).await.unwrap();
    }
}

/// A connection that is given up sends nothing anyway: only one that is kept can show it. So this
/// is tried again if the machine was too slow to release the held connection in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_late_before_it_is_sent_is_not_sent() {
    const CALLERS: u32 = 5_000;
    const MAX_TRIES: usize = 20;
    let server = Server::start().await;
    // The system buffers four megabytes. Nine long keys make a command of two kilobytes.
    let log = |more| SlidingLog::new(Quota::per_hour(UNITS + more));
    let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(log);
    let logs = (a, b, c, d, e, f, g, h);
    for number in 0..MAX_TRIES {
        let proxy = Proxy::start(server.port(), Duration::ZERO).await;
        let store = |config, deadline| {
            RedisStore::builder(with_defaults(config))
                .prefix(format!("{number:0>64}"))
                .hash_tag("t".repeat(64))
                .deadline(Duration::from_millis(deadline))
                .max_unanswered(usize::MAX)
                .build()
        };
        let held = store(centralized(proxy.port()), 50);
        let direct = RateLimiter::new(logs.clone(), store(server.config(), 10_000));
        let limiter = RateLimiter::new(logs.clone(), held.clone());
        until("a connection", async || limiter.peek(&7_u32).await.ok()).await;
        let before = direct.check(&7_u32).await.unwrap().remaining();
        proxy.hold_first(1);
        let failed = crowd(CALLERS, &limiter, |limiter, _| async move {
            limiter.check(&7_u32).await.is_err()
        });
        let all_failed = failed.await.into_iter().all(|has_failed| has_failed);
        proxy.forward();
        // Answers come in order: after this one nothing of before is on its way.
        until("an answer", async || limiter.peek(&7_u32).await.ok()).await;
        if held.usage().reconnects > 0 {
            continue;
        }
        assert!(all_failed);
        // What stood in the buffers of the system was on its way.
        let late = before - direct.peek(&7_u32).await.unwrap().remaining();
        assert!(
            late < u64::from(CALLERS) * 3 / 4,
            "{late} of {CALLERS} were charged"
        );
        return;
    }
    panic!("the connection was given up {MAX_TRIES} times");
}

struct Ill {
    node: usize,
    slot: u16,
    key: u32,
}

/// A key on one node, and some on the others.
async fn keys_on_and_off(cluster: &Cluster, store: &RedisStore) -> (Ill, Vec<u32>) {
    let limiter = RateLimiter::new(plenty(), store.clone());
    let mut owners = Vec::new();
    for key in 1_000..1_016_u32 {
        until("a decision", async || limiter.check(&key).await.ok()).await;
        let keys = cluster.keys(PREFIX).await;
        let end = format!(":{key};}}");
        let kept = keys.iter().find(|kept| kept.ends_with(end.as_bytes()));
        let slot = slot_of(kept.unwrap());
        owners.push((key, slot, cluster.owner_of(slot).await));
    }
    let (key, slot, node) = owners[0];
    let well = owners.iter().filter(|(_, _, owner)| *owner != node);
    let well: Vec<_> = well.map(|(key, _, _)| *key).collect();
    assert!(!well.is_empty());
    (Ill { node, slot, key }, well)
}
