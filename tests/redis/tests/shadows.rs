//! A limit in shadow over Redis has the state of that limit, enforced alone, over exactly the
//! requests that the enforced limits admit. It keeps its count when it is enforced.

use std::time::Duration;

use crate::shadow_claims::{
    START, gate, shadow_of, stands_as_if_alone, stands_as_if_alone_by_its_key, steps,
};
use fred::clients::Client;
use tollgate::{
    Decision, PolicyDecision, Quota, RateLimiter,
    algorithm::*,
    clock::ManualClock,
    store::{Ask, Change, LocalStore, RedisStore, Store},
};
use tollgate_algorithms::every_algorithm;
use tollgate_redis_tests::{Cluster, Server, until};

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
        let verdict = store
            .decide(&limits, "bob", Ask::Look(0))
            .wait()
            .await
            .unwrap();
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

/// With keys in several slots the shadow is charged in the second round, as the enforced limit is.
#[tokio::test]
async fn across_slots_it_stands_as_it_does_alone_in_memory() {
    let cluster = Cluster::start().await;
    let client = cluster.client().await;
    macro_rules! case {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let both = store(&client, &format!("slots {}", $name), &clock);
            let alone = LocalStore::builder().clock(clock.clone()).build();
            stands_as_if_alone_by_its_key($name, $made, (both, alone), &clock, STEPS / 3).await;
        )+};
    }
    for_every_algorithm!(case);
}

/// What is decided about a cost, and the status of the shadow.
async fn decided<A, S>(
    store: &S,
    limits: &(TokenBucket, Shadow<A>),
    cost: u32,
) -> (Decision, (PolicyDecision, bool))
where
    A: Algorithm,
    S: Store<(TokenBucket, Shadow<A>), ()>,
{
    let verdict = store
        .decide(limits, &(), Ask::Charge(cost))
        .wait()
        .await
        .unwrap();
    let decision = limits.decision(&verdict.snapshot);
    (decision, shadow_of(limits, &verdict.snapshot))
}

#[tokio::test]
async fn what_is_held_and_settled_in_shadow_stands_as_it_does_in_memory() {
    let server = Server::start().await;
    let client = server.client().await;
    let clock = ManualClock::at(START);
    let there = store(&client, "settled", &clock);
    let here = LocalStore::builder().clock(clock.clone()).build();
    let bucket = TokenBucket::new(Quota::per_second(2)).burst(9).settled();
    let limits = (gate(), bucket.shadow());
    let limiter_there = RateLimiter::new(limits.clone(), there.clone());
    let limiter_here = RateLimiter::new(limits.clone(), here.clone());
    let mut held = Vec::new();
    let mut settled = 0;
    for (step, (passes, cost)) in steps(STEPS).enumerate() {
        clock.advance(Duration::from_micros(passes));
        let holds = (
            limiter_there.hold(&(), cost).await.unwrap(),
            limiter_here.hold(&(), cost).await.unwrap(),
        );
        match holds {
            (Ok(one), Ok(other)) => held.push((one, other)),
            (Err(one), Err(other)) => assert_eq!(one, other),
            (one, other) => panic!("{one:?}, {other:?}"),
        }
        // Some spend less than they hold, some more.
        if step % 3 == 1
            && let Some((one, other)) = held.pop()
        {
            let spent = (step % 5) as u32;
            one.settle(spent).await.unwrap();
            other.settle(spent).await.unwrap();
            settled += 1;
        }
        let stands_there = there
            .decide(&limits, &(), Ask::Look(0))
            .wait()
            .await
            .unwrap();
        let stands_here = here
            .decide(&limits, &(), Ask::Look(0))
            .wait()
            .await
            .unwrap();
        let [stands_there, stands_here] =
            [stands_there, stands_here].map(|stands| shadow_of(&limits, &stands.snapshot));
        assert_eq!(stands_there, stands_here, "{step}");
    }
    assert!(settled > STEPS / 10);
}

#[tokio::test]
async fn the_turn_of_a_queue_in_shadow_is_given_back_as_in_memory() {
    let server = Server::start().await;
    let client = server.client().await;
    let clock = ManualClock::at(START);
    let there = store(&client, "withdrawn", &clock);
    let here = LocalStore::builder().clock(clock.clone()).build();
    let queue = LeakyBucket::new(Quota::per_second(1)).capacity(4).queue();
    let limits = (gate(), queue.shadow());
    for cost in [1, 2] {
        let expected = decided(&here, &limits, cost).await;
        assert_eq!(decided(&there, &limits, cost).await, expected);
    }
    let last_here = here
        .decide(&limits, &(), Ask::Charge(1))
        .wait()
        .await
        .unwrap();
    let last_there = there
        .decide(&limits, &(), Ask::Charge(1))
        .wait()
        .await
        .unwrap();
    let left = |snapshot: &_| shadow_of(&limits, snapshot).0.remaining();
    let before = left(&last_here.snapshot);
    // Who would have been refused has no turn.
    let refused_here = here
        .decide(&limits, &(), Ask::Charge(3))
        .wait()
        .await
        .unwrap();
    let refused_there = there
        .decide(&limits, &(), Ask::Charge(3))
        .wait()
        .await
        .unwrap();
    for refused in [&refused_here, &refused_there] {
        assert!(shadow_of(&limits, &refused.snapshot).1);
    }
    drop(here.change(
        &limits,
        &(),
        Change::Withdraw {
            admission: &refused_here.snapshot,
            cost: 3,
        },
    ));
    drop(there.change(
        &limits,
        &(),
        Change::Withdraw {
            admission: &refused_there.snapshot,
            cost: 3,
        },
    ));
    drop(here.change(
        &limits,
        &(),
        Change::Withdraw {
            admission: &last_here.snapshot,
            cost: 1,
        },
    ));
    drop(there.change(
        &limits,
        &(),
        Change::Withdraw {
            admission: &last_there.snapshot,
            cost: 1,
        },
    ));
    let stands_here = here
        .decide(&limits, &(), Ask::Look(0))
        .wait()
        .await
        .unwrap();
    let expected = shadow_of(&limits, &stands_here.snapshot);
    assert_eq!(expected.0.remaining(), before + 1);
    let given_back = until("the turn, given back", async || {
        let stands = there.decide(&limits, &(), Ask::Look(0)).wait().await.ok()?;
        (shadow_of(&limits, &stands.snapshot) == expected).then_some(())
    });
    given_back.await;
}
