//! Each of several keys over Redis: all admit or none is charged, in one script, and in a cluster
//! across its slots.

use std::{fmt::Debug, time::Duration};

use proptest::prelude::*;
use tollgate::{
    EachOf, Quota, RateLimiter,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, Scripted, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    clock::ManualClock,
    store::{LocalStore, RedisStore, RedisStoreBuilder},
};
use tollgate_properties::{
    history::{History, forward_history_with_debits},
    replay::wait_of,
    shared::over,
    subject::instant,
};
use tollgate_redis_tests::{Cluster, Redis, crowd, patient};

fn quota(units: u64) -> Quota {
    Quota::new(units, Duration::from_micros(40 + units))
}

fn buckets() -> SlidingBuckets {
    let quota = Quota::new(6, Duration::from_micros(40));
    SlidingBuckets::new(quota, Duration::from_micros(5))
}

/// The keys of a request: few, so that they meet; some are absent.
type Keys = EachOf<(Option<u8>, Option<u8>, Option<u8>)>;

/// The keys of each step of a history. Back goes the clock of a single key in `slow/equal.rs`: here
/// each member of a tuple has a time of its own, but in Redis.
fn happened() -> impl Strategy<Value = (History, Vec<Keys>)> {
    let key = || prop_oneof![1 => Just(None), 4 => (0..2_u8).prop_map(Some)];
    let keys = (key(), key(), key()).prop_map(EachOf);
    let keys = prop::collection::vec(keys, 80);
    (forward_history_with_debits(), keys)
}

/// The same history over Redis and in memory gives the same decisions, in every field.
fn is_as_in_memory<A, B, C>(
    redis: &Redis,
    cases: u32,
    store: impl Fn(ManualClock) -> RedisStore + Sync,
    limits: EachOf<(A, B, C)>,
) where
    A: Scripted<State: Send, Snapshot: Send> + Debug,
    B: Scripted<State: Send, Snapshot: Send> + Debug,
    C: Scripted<State: Send, Snapshot: Send> + Debug,
{
    redis.for_all(cases, happened, |(history, keys)| {
        let (mut now, mut wait) = (history.start, 0);
        let clock = ManualClock::at(instant(now));
        let theirs = store(clock.clone());
        let ours = LocalStore::builder().clock(clock.clone()).build();
        for (step, keys) in history.steps.iter().zip(keys) {
            now = step.turn.within(now, wait, [40, 75]);
            clock.set(instant(now));
            let call = step.op.call(6);
            let theirs = over(limits.clone(), theirs.clone(), keys);
            let ours = over(limits.clone(), ours.clone(), keys);
            let both = redis.wait(async { [theirs.ask(call).await, ours.ask(call).await] });
            let both = both.map(|it| it.unwrap().map(|it| (it.decision, it.in_shadow)));
            let [told, should] = &both;
            prop_assert_eq!(told, should, "{:?} of {:?} at {}", call, keys, now);
            wait = told.as_ref().map_or(wait, |told| wait_of(&told.0));
        }
        Ok(())
    });
}

fn every_place_holds_every_rule(
    redis: &Redis,
    cases: u32,
    builder: impl Fn() -> RedisStoreBuilder + Sync,
) {
    let store = |clock: ManualClock| {
        let prefix = redis.new_key().replace(' ', "-");
        builder().prefix(prefix).clock(clock).build()
    };
    let log = || SlidingLog::new(quota(5));
    let queue = LeakyBucket::new(quota(6)).queue();
    let gap = MinInterval::new(Duration::from_micros(3));
    let tokens = || TokenBucket::new(quota(8)).burst(5);
    let window = || FixedWindow::new(quota(6));
    let two = || SlidingWindow::new(quota(7));
    let limits = EachOf((tokens(), window(), log()));
    is_as_in_memory(redis, cases, store, limits);
    let limits = EachOf((log(), buckets(), log()));
    is_as_in_memory(redis, cases, store, limits);
    let limits = EachOf((queue.clone(), gap.clone(), two()));
    is_as_in_memory(redis, cases, store, limits);
    // What would be charged first, with the others and last, in shadow.
    let held = tokens().named("held").settled();
    let limits = EachOf((held.clone().shadow(), window(), queue.shadow()));
    is_as_in_memory(redis, cases, store, limits);
    let limits = EachOf((two().shadow(), held, gap.clone().shadow()));
    is_as_in_memory(redis, cases, store, limits);
    // Units that are held, and spent when their time is over.
    let held = tokens().settled().held_at_most(Duration::from_micros(7));
    let long_held = two().settled().held_at_most(Duration::from_micros(30));
    is_as_in_memory(redis, cases, store, EachOf((held, window(), long_held)));
    // Tuples for a key, and the same policy twice.
    let both = (tokens(), log());
    let limits = EachOf((both.clone(), (gap, buckets()), both));
    is_as_in_memory(redis, cases, store, limits);
    let (requests, others) = (log().per_request(), (tokens().per_request(), tokens()));
    let limits = EachOf((requests.clone(), others, requests));
    is_as_in_memory(redis, cases, store, limits);
    let limits = EachOf((tokens(), tokens(), Gcra::new(quota(9)).burst(6)));
    is_as_in_memory(redis, cases, store, limits);
}

#[test]
fn random_histories_are_decided_as_in_memory() {
    let redis = Redis::start();
    every_place_holds_every_rule(&redis, 240, || patient(redis.client().clone()));
}

#[test]
fn so_they_are_across_the_slots_of_a_cluster_and_in_one_slot_of_it() {
    let redis = Redis::start();
    let cluster = redis.wait(Cluster::start());
    let client = redis.wait(cluster.client());
    every_place_holds_every_rule(&redis, 48, || patient(client.clone()));
    every_place_holds_every_rule(&redis, 48, || patient(client.clone()).hash_tag("shop"));
}

/// Each request counts against its caller and against all. However many tasks ask, they are never
/// admitted more than both have room for: what was charged for a request that another key refused
/// stays charged where others came in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn across_slots_tasks_in_a_race_are_never_admitted_more_than_the_limit() {
    let cluster = Cluster::start().await;
    let store = patient(cluster.client().await).build();
    let (year, of_one, of_all) = (Duration::from_secs(86_400 * 365), 25, 60);
    let limits = EachOf((
        FixedWindow::new(Quota::new(of_one, year)).from_first_request(),
        TokenBucket::new(Quota::new(of_all, year)),
    ));
    let limiter = RateLimiter::new(limits, store);
    let tasks = crowd(32, &limiter, |limiter, task| async move {
        let caller = EachOf((Some(task % 4), Some("all".to_owned())));
        let mut admitted = 0;
        for _ in 0..6 {
            admitted += u64::from(limiter.check(&caller).await.unwrap().is_admitted());
        }
        (task % 4, admitted)
    });
    let mut admitted = [0; 4];
    for (caller, count) in tasks.await {
        admitted[caller as usize] += count;
    }
    let together: u64 = admitted.iter().sum();
    assert!((1..=of_all).contains(&together), "{admitted:?}");
    for (caller, used) in (0_u32..).zip(admitted) {
        let own = EachOf((Some(caller), None::<String>));
        let left = limiter.peek(&own).await.unwrap().remaining();
        assert!(left + used <= of_one, "{left} {admitted:?}");
    }
    assert_eq!(cluster.keys_without_ttl("").await, [""; 0]);
}
