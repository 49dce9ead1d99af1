//! A limit in shadow over Redis has the state of that limit alone, asked about exactly the requests
//! that the enforced ones admit; and it keeps its count when it is enforced.

#[path = "../../support/algorithms.rs"]
mod algorithms;
#[path = "../../support/shadows.rs"]
mod shadows;

use std::time::Duration;

use algorithms::every_algorithm;
use fred::clients::Client;
use shadows::{START, gate, shadow_of, stands_as_if_alone, stands_as_if_alone_by_its_key};
use tollgate::{
    Quota, RateLimiter,
    algorithm::*,
    clock::ManualClock,
    store::{RedisStore, Store},
};
use tollgate_redis_tests::Server;

const STEPS: usize = 150;

fn store(client: &Client, prefix: &str, clock: &ManualClock) -> RedisStore {
    let builder = RedisStore::builder(client.clone()).prefix(prefix.replace(' ', "-"));
    let builder = builder.deadline(Duration::from_secs(20));
    builder.clock(clock.clone()).build()
}

macro_rules! for_every_algorithm {
    ($case:ident) => {
        let quota = Quota::per_second(2);
        let (burst, precision) = (5, Duration::from_millis(100));
        let interval = Duration::from_millis(400);
        every_algorithm!($case, quota, burst, precision, interval);
    };
}

#[tokio::test]
async fn beside_an_enforced_limit_it_stands_as_it_does_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let of = |who: &str| store(&client, &format!("{who} {}", $name), &clock);
            let stores = (of("both"), of("alone"), of("gate"));
            stands_as_if_alone($name, $made, stores, &clock, STEPS).await;
        )+};
    }
    for_every_algorithm!(case);
}

#[tokio::test]
async fn with_a_key_of_its_own_it_stands_as_it_does_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let of = |who: &str| store(&client, &format!("{who} {}", $name), &clock);
            let stores = (of("both"), of("alone"));
            stands_as_if_alone_by_its_key($name, $made, stores, &clock, STEPS).await;
        )+};
    }
    for_every_algorithm!(case);
}

#[tokio::test]
async fn a_debit_and_a_refund_reach_it_as_they_do_alone() {
    let server = Server::start().await;
    let client = server.client().await;
    let clock = ManualClock::at(START);
    let store = store(&client, "debits", &clock);
    let limits = (gate(), FixedWindow::new(Quota::per_day(5)).shadow());
    let limiter = RateLimiter::new(limits.clone(), store.clone());
    let left = async || {
        let verdict = store.peek(&limits, "bob", 0).wait().await.unwrap();
        shadow_of(&limits, &verdict.snapshot).0.remaining()
    };
    assert!(limiter.check_cost("bob", 4).await.unwrap().is_admitted());
    limiter.debit("bob", 3).await.unwrap();
    assert_eq!(left().await, 0);
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check_cost("bob", 1).await.unwrap().is_admitted());
    limiter.refund("bob", 4).await.unwrap();
    assert_eq!(left().await, 2);
}

#[tokio::test]
async fn it_keeps_its_count_when_it_is_enforced() {
    let server = Server::start().await;
    let client = server.client().await;
    let clock = ManualClock::at(START);
    let daily = FixedWindow::new(Quota::per_day(5)).named("daily");
    let rehearsed = (gate(), daily.clone().shadow());
    let rehearsed = RateLimiter::new(rehearsed, store(&client, "turned-on", &clock));
    let enforced = RateLimiter::new((gate(), daily), store(&client, "turned-on", &clock));
    assert!(rehearsed.check_cost("bob", 3).await.unwrap().is_admitted());
    let decision = enforced.check_cost("bob", 1).await.unwrap();
    assert_eq!(decision.policies()[1].remaining(), 1);
    assert!(rehearsed.check_cost("bob", 2).await.unwrap().is_admitted());
    let decision = enforced.check_cost("bob", 0).await.unwrap();
    assert_eq!(decision.policies()[1].remaining(), 1);
}
