//! A request over Redis that is dropped while it waits for its turn.

use std::time::Duration;

use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::{Ending, FixedWindow, KeyLimit, LeakyBucket, Scripted, SlidingLog, TokenBucket},
    clock::ManualClock,
    store::{Ask, Change, LocalStore, RedisStore, Store},
};
use tollgate_redis_tests::{Server, until};

/// Three requests of 3 units wait in a queue. Returns what each member of the rule has left after
/// they were admitted, after the second one was dropped, and after the last one was.
async fn left_of_each<A, S>(store: S, rule: A, name: &str) -> [Vec<u64>; 3]
where
    A: KeyLimit,
    S: Store<A, String>,
{
    let bob = "bob".to_owned();
    let mut admissions = Vec::new();
    for _ in 0..3 {
        let verdict = store.decide(&rule, &bob, Ask::Charge(3)).wait().await;
        let verdict = verdict.unwrap();
        assert!(verdict.admitted, "{name}");
        admissions.push(verdict.snapshot);
    }
    let limiter = RateLimiter::new(rule.clone(), store.clone());
    let left = async || -> Vec<u64> {
        let peeked = limiter.peek(&bob).await.unwrap();
        let members = peeked.policies().iter();
        members.map(|member| member.remaining()).collect()
    };
    let mut before = left().await;
    let mut all = vec![before.clone()];
    for admission in &admissions[1..] {
        let withdrawn = Change::End(admission, Ending::Withdrawn { cost: 3 });
        drop(store.change(&rule, &bob, withdrawn));
        let freed = async || Some(left().await).filter(|now| *now != before);
        before = until("units that are freed", freed).await;
        all.push(before.clone());
    }
    all.try_into().unwrap()
}

/// What is held beside the queue comes free wherever the request stood; its turn only comes free if
/// it was the last one.
#[tokio::test]
async fn who_leaves_a_queue_before_its_turn_gives_back_what_it_does_in_memory() {
    async fn is_as_in_memory<A: Scripted<State: Send, Snapshot: Send>>(
        server: &Server,
        beside: A,
        name: &str,
    ) where
        (A, tollgate::algorithm::LeakyBucketQueue): Scripted,
    {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let rule = (beside, LeakyBucket::new(Quota::per_second(10)).queue());
        let local = LocalStore::builder().clock(clock.clone()).build();
        let redis = RedisStore::builder(server.client().await)
            .prefix(name)
            .clock(clock)
            .deadline(Duration::from_secs(10));
        let expected = [vec![91, 1], vec![94, 1], vec![97, 4]];
        let in_memory = left_of_each(local, rule.clone(), name).await;
        assert_eq!(in_memory, expected, "{name}");
        let in_redis = left_of_each(redis.build(), rule, name).await;
        assert_eq!(in_redis, expected, "{name}");
    }
    let (server, day) = (Server::start().await, Quota::per_day(100));
    is_as_in_memory(&server, TokenBucket::new(day).settled(), "bucket").await;
    is_as_in_memory(&server, SlidingLog::new(day).settled(), "log").await;
    is_as_in_memory(&server, FixedWindow::new(day).settled(), "window").await;
}

/// The same of a queue in shadow.
#[tokio::test]
async fn a_turn_in_shadow_is_given_back() {
    let server = Server::start().await;
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = RedisStore::builder(server.client().await).clock(clock);
    let store = store.deadline(Duration::from_secs(10)).build();
    let queue = LeakyBucket::new(Quota::per_second(1)).capacity(4).queue();
    let limits = (TokenBucket::new(Quota::per_day(9)), queue.shadow());
    let left = async || {
        let looked = store.decide(&limits, "bob", Ask::Look(0)).wait().await;
        crate::shadow_claims::shadow_of(&limits, &looked.unwrap().snapshot)
            .0
            .remaining()
    };
    let charged = store.decide(&limits, "bob", Ask::Charge(3)).wait().await;
    let admission = &charged.unwrap().snapshot;
    let before = left().await;
    let withdrawn = Change::End(admission, Ending::Withdrawn { cost: 3 });
    drop(store.change(&limits, "bob", withdrawn));
    until("the turn", async || {
        (left().await == before + 3).then_some(())
    })
    .await;
}
