//! A request over Redis that is dropped while it waits for its turn.

use std::time::Duration;

use tollgate::{
    Quota, RateLimiter, Timestamp,
    algorithm::{Algorithm, LeakyBucket, Scripted, SlidingLog, TokenBucket},
    clock::ManualClock,
    store::{Ask, Change, LocalStore, RedisStore, Store},
};
use tollgate_redis_tests::{Server, until};

#[tokio::test]
async fn only_the_last_in_line_gives_its_turn_back() {
    let server = Server::start().await;
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store = RedisStore::builder(server.client().await)
        .clock(clock)
        .deadline(Duration::from_secs(10))
        .build();
    let queue = LeakyBucket::new(Quota::per_second(10)).queue();
    let bob = "bob".to_owned();
    let mut admissions = Vec::new();
    for _ in 0..3 {
        let verdict = store
            .decide(&queue, "bob", Ask::Charge(1))
            .wait()
            .await
            .unwrap();
        assert!(verdict.admitted);
        admissions.push(verdict.snapshot);
    }
    let limiter = RateLimiter::new(queue.clone(), store.clone());
    let left = async || limiter.peek("bob").await.unwrap().remaining();
    assert_eq!(left().await, 7);
    let calls = server.command_calls("evalsha").await;
    drop(store.change(
        &queue,
        &bob,
        Change::Withdraw {
            admission: &admissions[0],
            cost: 1,
        },
    ));
    until("a turn in the middle", async || {
        (server.command_calls("evalsha").await > calls).then_some(())
    })
    .await;
    assert_eq!(left().await, 7);
    drop(store.change(
        &queue,
        &bob,
        Change::Withdraw {
            admission: &admissions[2],
            cost: 1,
        },
    ));
    until("the last turn", async || (left().await > 7).then_some(())).await;
    assert_eq!(left().await, 8);
    let next = store
        .decide(&queue, "bob", Ask::Charge(1))
        .wait()
        .await
        .unwrap();
    assert_eq!(next.snapshot, admissions[2]);
}

/// Three requests of 3 units wait in a queue. Returns what the member beside the queue has left
/// after the second one was dropped, and after the last one was.
async fn left_beside_the_queue<A, S>(store: S, rule: A, both: &str) -> [u64; 2]
where
    A: Algorithm,
    S: Store<A, String>,
{
    let bob = "bob".to_owned();
    let mut admissions = Vec::new();
    for _ in 0..3 {
        let verdict = store
            .decide(&rule, &bob, Ask::Charge(3))
            .wait()
            .await
            .unwrap();
        assert!(verdict.admitted, "{both}");
        admissions.push(verdict.snapshot);
    }
    let limiter = RateLimiter::new(rule.clone(), store.clone());
    let left = async || limiter.peek(&bob).await.unwrap().policies()[0].remaining();
    assert_eq!(left().await, 91, "{both}");
    let mut after = [0; 2];
    for (turn, after) in [1, 2].into_iter().zip(&mut after) {
        let before = left().await;
        drop(store.change(
            &rule,
            &bob,
            Change::Withdraw {
                admission: &admissions[turn],
                cost: 3,
            },
        ));
        let freed = async || Some(left().await).filter(|now| *now != before);
        *after = until("units that are freed", freed).await;
    }
    after
}

#[tokio::test]
async fn who_leaves_a_queue_before_its_turn_frees_what_it_holds_beside_it_wherever_it_stood() {
    async fn is_freed<A: Scripted<State: Send, Snapshot: Send>>(
        server: &Server,
        held: A,
        name: &str,
    ) where
        (A, tollgate::algorithm::LeakyBucketQueue): Scripted,
    {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let rule = (held, LeakyBucket::new(Quota::per_second(10)).queue());
        let local = LocalStore::builder().clock(clock.clone()).build();
        let redis = RedisStore::builder(server.client().await)
            .prefix(name)
            .clock(clock)
            .deadline(Duration::from_secs(10));
        assert_eq!(
            left_beside_the_queue(local, rule.clone(), name).await,
            [94, 97]
        );
        assert_eq!(
            left_beside_the_queue(redis.build(), rule, name).await,
            [94, 97]
        );
    }
    let (server, day) = (Server::start().await, Quota::per_day(100));
    is_freed(&server, TokenBucket::new(day).settled(), "bucket").await;
    is_freed(&server, SlidingLog::new(day).settled(), "log").await;
}
