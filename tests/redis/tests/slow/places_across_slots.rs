//! Requests in flight in a cluster: their places lie in many slots and on several nodes, and a node
//! that hangs or dies costs the others none.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::{
    Hold, RateLimiter,
    algorithm::InFlight,
    store::{RedisStore, RedisStoreBuilder},
};
use tollgate_redis_tests::{Cluster, comes, slot_of, until};

/// For how long a process of these tests keeps its places.
const TIME: Duration = Duration::from_millis(800);
const KEYS: u32 = 90;

type Limiter = RateLimiter<InFlight, RedisStore>;

async fn builder(cluster: &Cluster) -> RedisStoreBuilder {
    RedisStore::builder(cluster.client().await)
}

fn limiter(store: RedisStore) -> Limiter {
    RateLimiter::new(InFlight::new(1).held_at_most(TIME), store)
}

/// A request of each key, and the node that has it.
async fn one_of_each(cluster: &Cluster, limiter: &Limiter) -> Vec<(u32, usize, Hold)> {
    let (mut all, mut known) = (Vec::new(), Vec::new());
    for key in 0..KEYS {
        let hold = until("a place", async || limiter.hold(&key, 1).await.ok()?.ok()).await;
        let keys = cluster.keys("tollgate").await;
        let new = keys.iter().find(|key| !known.contains(*key)).unwrap();
        all.push((key, cluster.owner_of(slot_of(new)).await, hold));
        known = keys;
    }
    all
}

/// For so long each key is peeked at again and again: its only place is taken all the time.
async fn are_in_flight(watcher: &Limiter, keys: &[u32], time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        for key in keys {
            let seen = watcher.peek(key).await.unwrap();
            assert_eq!(seen.remaining(), 0, "{key} after {:?}", since.elapsed());
        }
        sleep(Duration::from_millis(10)).await;
    }
}

async fn is_free(watcher: &Limiter, key: &u32) {
    let remaining = async || watcher.peek(key).await.ok().map(|it| it.remaining());
    comes("a free place", async || remaining().await == Some(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_or_dies_costs_no_place_on_the_others() {
    // No replica replaces a node while it hangs.
    let cluster = Cluster::start_with(&[
        "--cluster-require-full-coverage",
        "no",
        "--cluster-node-timeout",
        "30000",
    ])
    .await;
    // A renewal waits so long for the node that hangs: far longer than places are kept.
    let patient = builder(&cluster).await.deadline(Duration::from_secs(6));
    let limiter = limiter(patient.build());
    let watcher = builder(&cluster).await.deadline(Duration::from_secs(2));
    let watcher = self::limiter(watcher.build());
    let mut all = one_of_each(&cluster, &limiter).await;
    let primaries = cluster.primaries().await;
    let number_of = |node: usize| all.iter().filter(|(_, owner, _)| *owner == node).count();
    assert!(primaries.iter().all(|node| number_of(*node) >= 10));

    let every: Vec<_> = all.iter().map(|(key, ..)| *key).collect();
    are_in_flight(&watcher, &every, TIME * 4).await;

    let hung = primaries[0];
    let (theirs, others): (Vec<_>, Vec<_>) = all.drain(..).partition(|(_, node, _)| *node == hung);
    let healthy: Vec<_> = others.iter().map(|(key, ..)| *key).collect();
    cluster.nodes()[hung].stop_process();
    sleep(TIME).await;
    // Some requests of the node that hangs end meanwhile: theirs are given back when it goes on.
    let (ended, running): (Vec<_>, Vec<_>) = theirs
        .into_iter()
        .enumerate()
        .partition(|(at, _)| at % 2 == 0);
    let ended: Vec<_> = ended.into_iter().map(|(_, (key, ..))| key).collect();
    are_in_flight(&watcher, &healthy, TIME * 10).await;
    cluster.nodes()[hung].continue_process();
    for key in &ended {
        is_free(&watcher, key).await;
    }
    let still: Vec<_> = running.iter().map(|(_, (key, ..))| *key).collect();
    until("places that are taken again", async || {
        for key in &still {
            (watcher.peek(key).await.ok()?.remaining() == 0).then_some(())?;
        }
        Some(())
    })
    .await;
    are_in_flight(&watcher, &still, TIME * 2).await;

    // A node that is dead for good.
    let dead = primaries[1];
    cluster.nodes()[dead].kill();
    let survives = |(key, node, _): &(u32, usize, Hold)| (*node != dead).then_some(*key);
    let healthy: Vec<_> = others.iter().filter_map(survives).collect();
    are_in_flight(&watcher, &healthy, TIME * 6).await;
    drop(others);
    for key in &healthy {
        is_free(&watcher, key).await;
    }
}
