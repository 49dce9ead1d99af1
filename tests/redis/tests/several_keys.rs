//! Each of several keys over Redis: all admit or none is charged, in one script, and in a cluster
//! across its slots.

use std::{fmt::Debug, sync::Arc, time::Duration};

use proptest::prelude::*;
use tokio::task::JoinSet;
use tollgate::{
    Decision, EachOf, PolicyDecision, Quota, RateLimiter, Timestamp,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Scripted, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
    clock::ManualClock,
    store::{self, Change, LocalStore, RedisStore, RedisStoreBuilder, Store},
};
use tollgate_properties::call::Call;
use tollgate_redis_tests::{Cluster, Redis, patient};

const START: i64 = 1_700_000_000_000_000;

fn quota(units: u64) -> Quota {
    Quota::new(units, Duration::from_micros(40 + units))
}

fn buckets() -> SlidingBuckets {
    let quota = Quota::new(6, Duration::from_micros(40));
    SlidingBuckets::new(quota, Duration::from_micros(5))
}

/// The keys of a request: few, so that they meet; some are absent.
type Keys = EachOf<(Option<u8>, Option<u8>, Option<u8>)>;

#[derive(Debug, Clone)]
struct Step {
    /// In microseconds. Back goes the clock of a single key in `slow/equal.rs`: here each member of
    /// a tuple has a time of its own, but in Redis.
    after: i64,
    keys: Keys,
    call: Call<'static>,
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![1 => Just(None), 4 => (0..2_u8).prop_map(Some)];
    let keys = (key(), key(), key()).prop_map(EachOf);
    let after = prop_oneof![4 => Just(0), 8 => 0..20_i64, 2 => 0..150_i64];
    let call = prop_oneof![
        12 => (0..5_u32).prop_map(Call::Check),
        1 => Just(Call::Check(u32::MAX)),
        3 => Just(Call::Look(1)),
        1 => (0..9_u32).prop_map(Call::Debit),
        1 => (0..4_u32).prop_map(Call::Refund),
        1 => Just(Call::Reset),
    ];
    let step = (after, keys, call).prop_map(|(after, keys, call)| Step { after, keys, call });
    prop::collection::vec(step, 1..60)
}

/// What the store tells, if it is a decision or a look, and of each limit in shadow. The store is
/// asked, and not a limiter: that charges at once what is held and nobody can settle.
async fn told<L: Limit, S: Store<L, Keys>>(
    store: &S,
    limits: &L,
    keys: &Keys,
    call: Call<'_>,
) -> Option<(Decision, Vec<(PolicyDecision, bool)>)> {
    let written = match call {
        Call::Check(_) | Call::Look(_) => {
            let ask = match call {
                Call::Check(cost) => store::Ask::Charge(cost),
                _ => store::Ask::Look(1),
            };
            let decided = store.decide(limits, keys, ask).wait().await.unwrap();
            let mut in_shadow = Vec::new();
            limits.shadows_of(&decided.snapshot, &mut |policy, would_refuse| {
                in_shadow.push((policy, would_refuse));
            });
            return Some((limits.decision_of(&decided.snapshot), in_shadow));
        }
        Call::Debit(units) => store.change(limits, keys, Change::Debit(units)),
        Call::Refund(cost) => store.change(limits, keys, Change::Refund(cost)),
        Call::Reset => store.change(limits, keys, Change::Reset),
        Call::Override(_) | Call::End(..) => unreachable!("none is asked"),
    };
    written.wait().await.unwrap();
    None
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
    redis.for_all(cases, history, |history| {
        let at = |micros: i64| Timestamp::from_micros(micros.unsigned_abs());
        let (mut micros, clock) = (START, ManualClock::at(at(START)));
        let theirs = store(clock.clone());
        let ours = LocalStore::builder().clock(clock.clone()).build();
        for (turn, Step { after, keys, call }) in history.iter().enumerate() {
            micros += after;
            clock.set(at(micros));
            let both = async {
                let told_there = told(&theirs, &limits, keys, *call).await;
                (told_there, told(&ours, &limits, keys, *call).await)
            };
            let (told, should) = redis.wait(both);
            prop_assert_eq!(told, should, "turn {}: {:?} of {:?}", turn, call, keys);
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
    let limiter = Arc::new(RateLimiter::new(limits, store));
    let mut tasks = JoinSet::new();
    for task in 0..32_u32 {
        let limiter = Arc::clone(&limiter);
        tasks.spawn(async move {
            let caller = EachOf((Some(task % 4), Some("all".to_owned())));
            let mut admitted = 0;
            for _ in 0..6 {
                admitted += u64::from(limiter.check(&caller).await.unwrap().is_admitted());
            }
            (task % 4, admitted)
        });
    }
    let mut admitted = [0; 4];
    while let Some(done) = tasks.join_next().await {
        let (caller, count) = done.unwrap();
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
