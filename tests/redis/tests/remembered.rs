//! A store that remembers refusals refuses what Redis would, and asks again as soon as Redis might
//! admit. The simulator in `src/store/redis/refusals/tests.rs` has what slow, lost and overtaken
//! messages do.

use std::{
    slice::from_ref,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{task::JoinSet, time::Instant};
use tollgate::{
    Quota, RateLimiter,
    algorithm::{FixedWindow, SlidingLog, TokenBucket},
    clock::{Clock, ManualClock, SystemClock},
    store::{RedisStore, RedisStoreBuilder},
};
use tollgate_properties::{
    alike::Story, cases, history::any_history_with_debits, numbers::numbers, subject::instant,
};
use tollgate_redis_tests::{
    Proxy, Redis, Server, centralized, comes, connect, crowd, every_algorithm, patient,
    store_decides_as_the_rule, until,
};

const HISTORIES: u32 = 120;
const LONG: Duration = Duration::from_secs(3_600);

async fn remembering(server: &Server) -> RedisStore {
    let store = patient(server.client().await);
    store.remember_refusals(LONG).build()
}

async fn by_clock(server: &Server, clock: &ManualClock) -> RedisStoreBuilder {
    let store = patient(server.client().await).clock(clock.clone());
    store.remember_refusals(LONG)
}

#[test]
fn what_is_remembered_is_the_pure_rules_in_every_field() {
    let (redis, remembered) = (Redis::start(), AtomicU64::new(0));
    let values = || (numbers(), any_history_with_debits());
    redis.for_all(HISTORIES, values, |(numbers, history)| {
        every_algorithm(&numbers).iter().try_for_each(|subject| {
            let clock = ManualClock::at(instant(history.start));
            let store = patient(redis.client().clone()).clock(clock.clone());
            let store = store.remember_refusals(LONG).build();
            let (plan, story) = (from_ref(subject), Story::of(&history));
            store_decides_as_the_rule(&redis, &store, &clock, plan, &story)?;
            remembered.fetch_add(store.usage().remembered, Relaxed);
            Ok(())
        })
    });
    let remembered = remembered.into_inner();
    let few = u64::from(cases()) / 4;
    assert!(remembered > few, "{remembered} of {few}");
}

/// Only the first request after a turn is asked, and those that come until it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_costs_redis_few_scripts_for_each_unit_that_is_admitted() {
    let server = Server::start().await;
    let store = remembering(&server).await;
    let limiter = RateLimiter::new(
        TokenBucket::new(Quota::per_second(20)).burst(1),
        store.clone(),
    );
    let before = server.command_calls("evalsha").await;
    let end = Instant::now() + Duration::from_secs(2);
    crowd(16, &limiter, |limiter, _| async move {
        while Instant::now() < end {
            limiter.check("bob").await.unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    let usage = store.usage();
    let scripts = server.command_calls("evalsha").await - before;
    // What is admitted, who asked meanwhile, and who asked before that was answered.
    assert!(scripts <= 3 * usage.admitted + 10, "{scripts}: {usage:?}");
    assert!((20..=42).contains(&usage.admitted), "{usage:?}");
    assert!(usage.remembered > 100 * usage.admitted, "{usage:?}");
}

/// The next call about a key is sent before the one before is answered.
#[tokio::test]
async fn the_refusals_of_a_server_that_is_slow_are_remembered_too() {
    const DEADLINE: Duration = Duration::from_millis(2_000);
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::from_millis(300)).await;
    let store = RedisStore::builder(connect(centralized(proxy.port())).await);
    let store = store.deadline(DEADLINE).remember_refusals(LONG).build();
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(1)), store.clone());
    until("an answer", async || limiter.check("ann").await.ok()).await;
    // The script for several decisions is loaded.
    let others = RateLimiter::new(FixedWindow::new(Quota::per_day(9)), store.clone());
    comes("shared ones", async || {
        let _ = join_all((0..3).map(|_| others.check("ann"))).await;
        store.usage().joined > 0
    })
    .await;
    let since = Instant::now();
    let mut asked = JoinSet::new();
    while since.elapsed() < DEADLINE {
        let limiter = limiter.clone();
        asked.spawn(async move { limiter.check("bob").await.unwrap() });
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    asked.join_all().await;
    let usage = store.usage();
    assert!(usage.remembered > usage.refused / 4, "{usage:?}");
}

#[tokio::test]
async fn own_changes_are_noticed_at_once() {
    let server = Server::start().await;
    let store = remembering(&server).await;
    let rule = FixedWindow::new(Quota::per_hour(2));
    let limiter = RateLimiter::new(rule.clone(), store.clone());
    let is_admitted = async || limiter.check("bob").await.unwrap().is_admitted();
    let full = async || while is_admitted().await {};
    full().await;
    let later = SystemClock::new().now().saturating_add(LONG);
    limiter.let_through_until("bob", later).await.unwrap();
    assert!(is_admitted().await);
    limiter.reset("bob").await.unwrap();
    let settled = RateLimiter::new(rule.clone().settled(), store);
    let hold = settled.hold("ann", 2).await.unwrap().unwrap();
    assert!(settled.hold("ann", 1).await.unwrap().is_err());
    hold.settle(0);
    // It is sent by a task.
    while settled.hold("ann", 1).await.unwrap().is_err() {
        tokio::task::yield_now().await;
    }
    // What a look has seen of what others do.
    full().await;
    let other = RateLimiter::new(rule, remembering(&server).await);
    other.reset("bob").await.unwrap();
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 2);
    assert!(is_admitted().await);
}

#[tokio::test]
async fn a_store_that_asks_again_later_refuses_beyond_the_turn_and_asks_then() {
    let (server, clock) = (Server::start().await, ManualClock::at(instant(1_000_000)));
    let store = by_clock(&server, &clock)
        .await
        .ask_again_after(Duration::from_micros(50))
        .build();
    let one_in_ten = TokenBucket::new(Quota::one_every(Duration::from_micros(10))).burst(1);
    let limiter = RateLimiter::new(one_in_ten, store.clone());
    assert!(limiter.check("bob").await.unwrap().is_admitted());
    // After so many microseconds: the wait that is told.
    for (at, wait) in [(0, 10), (30, 10), (44, 6), (49, 1)] {
        clock.set(instant(1_000_000 + at));
        let refused = limiter.check("bob").await.unwrap();
        assert_eq!(
            refused.retry_after(),
            Some(Duration::from_micros(wait)),
            "{at}"
        );
    }
    assert_eq!(store.usage().remembered, 3);
    clock.set(instant(1_000_050));
    assert!(limiter.check("bob").await.unwrap().is_admitted());
}

/// What an admission leaves says that the next one is refused.
#[tokio::test]
async fn a_key_that_was_refused_costs_one_script_for_each_unit_it_is_admitted() {
    let (server, clock) = (Server::start().await, ManualClock::at(instant(1_000_000)));
    let store = by_clock(&server, &clock).await.build();
    let one_in_ten = Quota::one_every(Duration::from_micros(10));
    let bucket = TokenBucket::new(one_in_ten).burst(2);
    let limiter = RateLimiter::new(bucket, store.clone());
    let check = async |cost| limiter.check_cost("bob", cost).await.unwrap();
    for is_admitted in [true, true, false] {
        assert_eq!(check(1).await.is_admitted(), is_admitted);
    }
    // After so many microseconds: how many are admitted.
    for (remembered, (after, units)) in (0..).zip([(10, 1), (30, 2), (55, 2), (65, 1)]) {
        clock.set(instant(1_000_000 + after));
        assert_eq!(store.usage().remembered, 2 * remembered);
        for _ in 0..units {
            assert!(check(1).await.is_admitted());
        }
        // Larger costs too, and each is told its own wait.
        let waits = [check(1).await, check(2).await].map(|it| it.retry_after().unwrap());
        assert_eq!(waits, [10, 20].map(Duration::from_micros), "{after}");
    }
    assert_eq!(store.usage().remembered, 8);
}

#[tokio::test]
async fn a_log_that_refuses_what_others_have_leased_admits_it_as_soon_as_they_give_it_back() {
    let server = Server::start().await;
    let rule = SlidingLog::new(Quota::per_hour(4_000));
    let others = patient(server.client().await).build();
    let others = others.leased(Duration::from_secs(2));
    let asking = RateLimiter::new(rule.clone(), others.clone());
    let limiter = RateLimiter::new(rule, remembering(&server).await);
    limiter.check("bob").await.unwrap();
    while others.usage().units_held < 20 {
        assert!(asking.check("bob").await.unwrap().is_admitted());
    }
    let left = limiter.peek("bob").await.unwrap().remaining() as u32;
    let check = async || limiter.check_cost("bob", left + 1).await.unwrap();
    assert!(!check().await.is_admitted());
    comes("what was held", async || check().await.is_admitted()).await;
}

#[tokio::test]
async fn at_most_ten_thousand_refusals_are_kept() {
    let server = Server::start().await;
    let store = remembering(&server).await;
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(1)).burst(0), store.clone());
    for key in 0..=10_000_u32 {
        assert!(!limiter.check(&key).await.unwrap().is_admitted());
    }
    assert_eq!(store.usage().remembered, 0);
    for (key, remembered) in [(10_000_u32, 1), (0, 1), (0, 2)] {
        limiter.check(&key).await.unwrap();
        assert_eq!(store.usage().remembered, remembered, "{key}");
    }
}
