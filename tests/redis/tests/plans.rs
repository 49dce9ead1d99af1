//! What plans hold under one name is worth the same in memory and in Redis, however much their
//! numbers differ.

use std::time::Duration;

use tollgate::{
    Decision, Quota, RateLimiter, Timestamp,
    algorithm::{Settled, SlidingLog, TokenBucket},
    clock::ManualClock,
    store::{LocalStore, Store},
};
use tollgate_redis_tests::Redis;

/// A plan that is ten thousand times slower holds nearly all, while the fast one settles.
fn settled_by_a_plan_that_is_much_faster<S>(redis: &Redis, store: S) -> Decision
where
    S: Store<Settled<TokenBucket>, String>,
{
    let plan = |units, seconds| {
        let quota = Quota::new(units, Duration::from_secs(seconds));
        RateLimiter::new(TokenBucket::new(quota).named("n").settled(), store.clone())
    };
    let (fast, slow) = (plan(10_007, 60), plan(1_000, 30 * 86_400));
    redis.wait(async {
        let held = fast.hold("bob", 1).await.unwrap().unwrap();
        let nearly_all = slow.hold("bob", 900).await.unwrap().unwrap();
        held.settle(1).await.unwrap();
        let decision = slow.peek("bob").await.unwrap();
        nearly_all.settle(900).await.unwrap();
        decision
    })
}

/// What a fast plan held beside a log is over in the log, and a slow plan looks.
fn looked_at_beside_a_log<S>(redis: &Redis, store: S, clock: &ManualClock) -> Decision
where
    S: Store<(Settled<TokenBucket>, Settled<SlidingLog>), String>,
{
    let plan = |units| {
        let bucket = TokenBucket::new(Quota::per_hour(units)).named("n");
        let log = SlidingLog::new(Quota::per_hour(5_000)).named("m");
        RateLimiter::new((bucket.settled(), log.settled()), store.clone())
    };
    let (fast, slow) = (plan(1_000), plan(10));
    redis.wait(async {
        let _held = fast.hold("bob", 1_000).await.unwrap().unwrap();
        clock.advance(Duration::from_secs(121));
        slow.peek("bob").await.unwrap();
        clock.advance(Duration::from_secs(1));
        *slow.hold("bob", 5).await.unwrap().unwrap_err()
    })
}

#[test]
fn what_other_plans_hold_is_worth_the_same_in_memory_and_in_redis() {
    let redis = &Redis::start();
    let start = Timestamp::from_micros(1_700_000_000_000_000);
    let clock = &ManualClock::at(start);
    let in_memory = LocalStore::builder().clock(clock.clone()).build();
    let settled = settled_by_a_plan_that_is_much_faster(redis, in_memory);
    let in_redis = redis.store(clock.clone());
    assert_eq!(
        settled_by_a_plan_that_is_much_faster(redis, in_redis),
        settled
    );

    let in_memory = LocalStore::builder().clock(clock.clone()).build();
    let refused = looked_at_beside_a_log(redis, in_memory, clock);
    clock.set(start);
    let in_redis = redis.store(clock.clone());
    assert_eq!(looked_at_beside_a_log(redis, in_redis, clock), refused);
}
