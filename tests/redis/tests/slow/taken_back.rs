//! Across the slots of a cluster keys whose charge can be given back are charged first. If another
//! key refuses, a charge is taken back exactly, or not at all.

use std::time::Duration;

use fred::interfaces::KeysInterface;
use tokio::time::{Instant, sleep_until};
use tollgate::{
    EachOf, Quota, RateLimiter, StoreErrorKind, Timestamp, algorithm::*, clock::ManualClock,
    store::RedisStore,
};
use tollgate_algorithms::for_every_algorithm;
use tollgate_redis_tests::{Cluster, Fickle, comes, patient, slot_of, until};

/// A fickle rule that is charged last, as it is in a tuple with an interval that is always over.
fn fickle_at_last() -> (MinInterval, Fickle) {
    (
        MinInterval::new(Duration::from_micros(1)),
        Fickle::default(),
    )
}

type Keys = EachOf<(Option<u32>, Option<u32>)>;

type Limiter<L> = RateLimiter<L, RedisStore>;

/// A key of the rule, and one of the fickle rule on another node, whose next answer is its first;
/// and limiters by the rule alone and by both.
async fn on_two_nodes<A, B>(
    cluster: &Cluster,
    store: &RedisStore,
    rule: A,
    other: B,
) -> (Keys, Limiter<A>, Limiter<EachOf<(A, B)>>)
where
    A: Scripted<Snapshot: Send>,
    B: Scripted<Snapshot: Send>,
{
    let client = cluster.client().await;
    let ours = RateLimiter::new(rule.clone(), store.clone());
    let fickle = RateLimiter::new(other.clone(), store.clone());
    let deleted_keys = async || {
        let keys = cluster.keys("tollgate").await;
        for key in &keys {
            let () = client.del(key.clone()).await.unwrap();
        }
        keys
    };
    let owner_of_new_key = async || {
        let keys = deleted_keys().await;
        assert!(!keys.is_empty());
        cluster.owner_of(slot_of(&keys[0])).await
    };
    // Those of earlier rules may be on other nodes.
    deleted_keys().await;
    ours.debit(&0_u32, 1).await.unwrap();
    let our_owner = owner_of_new_key().await;
    for key in 0..40_u32 {
        fickle.peek(&key).await.unwrap();
        if owner_of_new_key().await != our_owner {
            let both = RateLimiter::new(EachOf((rule, other)), store.clone());
            return (EachOf((Some(0), Some(key))), ours, both);
        }
    }
    panic!("all keys are on one node")
}

async fn left<A: Scripted<Snapshot: Send>>(limiter: &Limiter<A>, key: u32) -> u64 {
    limiter.peek(&key).await.unwrap().remaining()
}

/// Nothing comes in between: it is as if the key had not been charged.
async fn is_given_back_whole<A: Scripted<Snapshot: Send>>(
    name: &str,
    cluster: &Cluster,
    store: &RedisStore,
    rule: A,
) {
    let (keys, alone, both) = on_two_nodes(cluster, store, rule, fickle_at_last()).await;
    alone.check(&0_u32).await.unwrap();
    // By now an interval has passed, if the rule asks for one.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let before = alone.peek(&0_u32).await.unwrap();
    assert!(before.is_admitted(), "{name}: {before:?}");
    let refused = both.check(&keys).await.unwrap();
    assert!(!refused.is_admitted(), "{name}: {refused:?}");
    let after = alone.peek(&0_u32).await.unwrap();
    assert!(after.is_admitted(), "{name}: {before:?} {after:?}");
    assert_eq!(before.remaining(), after.remaining(), "{name}: {after:?}");
    assert_eq!(cluster.keys_without_ttl("").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_charged_meanwhile_is_taken_back_whole_by_every_rule() {
    let cluster = Cluster::start().await;
    let store = patient(cluster.client().await).build();
    // Nothing comes back meanwhile, no window ends, and nobody waits for longer than this.
    let (quota, burst) = (Quota::new(50, Duration::from_secs(100 * 86_400)), 20);
    let (precision, interval) = (quota.period() / 10, Duration::from_millis(1));
    for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
        is_given_back_whole(name, &cluster, &store, rule).await
    });
    let triple = (
        TokenBucket::new(quota),
        MinInterval::new(interval),
        SlidingLog::new(quota),
    );
    is_given_back_whole("a triple", &cluster, &store, triple).await;
    // A check holds nothing: it charges.
    let bucket = TokenBucket::new(quota).named("b").settled();
    is_given_back_whole("a settled bucket", &cluster, &store, bucket).await;
    let log = SlidingLog::new(quota).named("l").settled();
    is_given_back_whole("a settled log", &cluster, &store, log).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_paid_off_meanwhile_is_not_freed_for_those_who_came_in_between() {
    let cluster = Cluster::start().await;
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = patient(cluster.client().await).clock(clock.clone()).build();
    let rule = TokenBucket::new(Quota::per_second(1_000)).burst(100);
    let (keys, alone, both) = on_two_nodes(&cluster, &store, rule, fickle_at_last()).await;
    alone.check_cost(&0_u32, 10).await.unwrap();
    let asked = tokio::spawn(async move { both.check_cost(&keys, 20).await });
    comes("a charge", async || left(&alone, 0).await == 70).await;
    // All of it is paid off by now, and others use what came back.
    clock.advance(Duration::from_millis(50));
    let between = alone.check_cost(&0_u32, 40).await.unwrap();
    assert_eq!(between.remaining(), 60);
    assert!(!asked.is_finished(), "the other key was too fast");
    let refused = asked.await.unwrap().unwrap();
    assert!(!refused.is_admitted(), "{refused:?}");
    assert_eq!(left(&alone, 0).await, 60);
}

/// While the fickle key takes its time, the other key looks as if nobody had asked; and so it does
/// after the fickle one has refused.
async fn is_not_charged_before<A, B>(cluster: &Cluster, store: &RedisStore, rule: A, fickle: B)
where
    A: Scripted<Snapshot: Send + Sync, State: Sync>,
    B: Scripted<Snapshot: Send + Sync, State: Sync>,
{
    let (keys, alone, both) = on_two_nodes(cluster, store, rule, fickle).await;
    let before = alone.peek(&0_u32).await.unwrap();
    let asked = tokio::spawn(async move { both.hold(&keys, 1).await });
    let mut looks = 0;
    while !asked.is_finished() {
        assert_eq!(alone.peek(&0_u32).await.unwrap(), before, "look {looks}");
        looks += 1;
    }
    assert!(looks > 10, "the other key was too fast: {looks} looks");
    assert!(asked.await.unwrap().unwrap().is_err());
    assert_eq!(alone.peek(&0_u32).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_charged_waits_for_all_that_is_held_and_queues_and_intervals_for_all_others() {
    let cluster = Cluster::start().await;
    let store = patient(cluster.client().await).build();
    let (store, hour) = (&store, Duration::from_secs(3_600));
    let tokens = TokenBucket::new(Quota::per_day(50));
    let queue = LeakyBucket::new(Quota::per_hour(50)).queue();
    let held = || Settled::new(Fickle::default());
    let gap = MinInterval::new(hour);
    is_not_charged_before(&cluster, store, tokens.clone(), held()).await;
    is_not_charged_before(&cluster, store, (tokens.clone().settled(), tokens), held()).await;
    is_not_charged_before(&cluster, store, gap.clone(), held()).await;
    is_not_charged_before(&cluster, store, gap, Fickle::default()).await;
    is_not_charged_before(&cluster, store, queue, Fickle::default()).await;
    assert_eq!(cluster.keys_without_ttl("").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_held_is_freed_whoever_has_come_in_between_and_nothing_of_theirs() {
    let cluster = Cluster::start().await;
    let store = patient(cluster.client().await).build();
    let rule = TokenBucket::new(Quota::per_day(100)).settled();
    let (keys, alone, both) = on_two_nodes(&cluster, &store, rule, fickle_at_last()).await;
    let asked = tokio::spawn(async move { both.hold(&keys, 20).await });
    comes("a hold", async || left(&alone, 0).await == 80).await;
    // Before another one settles, and after a third one holds.
    let [second, third] = [
        alone.hold(&0_u32, 30).await.unwrap().unwrap(),
        alone.hold(&0_u32, 40).await.unwrap().unwrap(),
    ];
    second.settle(5).await.unwrap();
    assert!(!asked.is_finished(), "the other key was too fast");
    assert_eq!(left(&alone, 0).await, 35);
    assert!(asked.await.unwrap().unwrap().is_err());
    assert_eq!(left(&alone, 0).await, 55);
    third.settle(40).await.unwrap();
    assert_eq!(left(&alone, 0).await, 55);
}

/// A key of the rule, on a node of its own: those of `taken` have another one.
async fn key_on_another_node<A: Scripted<Snapshot: Send>>(
    cluster: &Cluster,
    limiter: &RateLimiter<A, RedisStore>,
    taken: &mut Vec<usize>,
) -> u32 {
    let client = cluster.client().await;
    for key in 0..100_u32 {
        limiter.debit(&key, 1).await.unwrap();
        let written = cluster.keys("tollgate").await;
        let owner = cluster.owner_of(slot_of(&written[0])).await;
        for key in written {
            let () = client.del(key).await.unwrap();
        }
        if !taken.contains(&owner) {
            taken.push(owner);
            return key;
        }
    }
    panic!("no key is on another node than {taken:?}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_when_the_deadline_is_over_is_not_charged_and_the_rest_is_given_back() {
    let deadline = Duration::from_secs(2);
    // No replica replaces a node that is stopped for a while.
    let cluster = Cluster::start_with(&["--cluster-node-timeout", "30000"]).await;
    let store = RedisStore::builder(cluster.client().await).deadline(deadline);
    let store = store.build();
    let held = TokenBucket::new(Quota::per_day(50)).settled();
    let charged = SlidingLog::new(Quota::per_day(50));
    let last = MinInterval::new(Duration::from_secs(3_600));
    let all = EachOf((held.clone(), charged.clone(), last.clone()));
    let all = RateLimiter::new(all, store.clone());
    let held = RateLimiter::new(held, store.clone());
    let charged = RateLimiter::new(charged, store.clone());
    let last = RateLimiter::new(last, store);
    let mut nodes = Vec::new();
    let held_key = key_on_another_node(&cluster, &held, &mut nodes).await;
    let charged_key = key_on_another_node(&cluster, &charged, &mut nodes).await;
    let last_key = key_on_another_node(&cluster, &last, &mut nodes).await;
    let [node_of_held, node_of_charged, _] = nodes[..] else {
        panic!("{nodes:?}")
    };
    // All scripts are known on all nodes.
    let keys = EachOf((Some(held_key), Some(charged_key), Some(last_key)));
    assert!(all.hold(&keys, 1).await.unwrap().is_ok());
    last.reset(&last_key).await.unwrap();
    let before = [
        left(&held, held_key).await,
        left(&charged, charged_key).await,
    ];

    let begun = Instant::now();
    let at = async |share: f64| sleep_until(begun + deadline.mul_f64(share)).await;
    cluster.nodes()[node_of_held].stop_process();
    let asked = tokio::spawn(async move { all.hold(&keys, 1).await });
    at(0.3).await;
    // The node has answered a peek, and hangs when its key is to be charged.
    cluster.nodes()[node_of_charged].stop_process();
    at(0.6).await;
    cluster.nodes()[node_of_held].continue_process();
    until("a hold", async || {
        (held.peek(&held_key).await.ok()?.remaining() == before[0] - 1).then_some(())
    })
    .await;
    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    at(1.2).await;
    cluster.nodes()[node_of_charged].continue_process();
    until("all that is given back", async || {
        let held = held.peek(&held_key).await.ok()?.remaining();
        let charged = charged.peek(&charged_key).await.ok()?.remaining();
        ([held, charged] == before).then_some(())
    })
    .await;
    assert!(last.peek(&last_key).await.unwrap().is_admitted());
}
