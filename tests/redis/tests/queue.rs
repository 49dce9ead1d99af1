//! A request over Redis that is dropped while it waits for its turn.

use tollgate::{
    Quota, Timestamp,
    algorithm::{Ending, FixedWindow, KeyLimit, LeakyBucket, Scripted, SlidingLog, TokenBucket},
    clock::ManualClock,
    store::{Ask, Change, LocalStore, Store},
};
use tollgate_redis_tests::{Server, patient, until};

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
    let left = async || -> Vec<u64> {
        let looked = store.decide(&rule, &bob, Ask::Look(0)).wait().await;
        let mut left = Vec::new();
        rule.describe(&looked.unwrap().snapshot, &mut |member| {
            left.push(member.remaining());
        });
        left
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
/// it was the last one. So it is where either is in shadow.
#[tokio::test]
async fn who_leaves_a_queue_before_its_turn_gives_back_what_it_does_in_memory() {
    async fn is_as_in_memory<A>(server: &Server, name: &str, rule: A, expected: [&[u64]; 3])
    where
        A: Scripted<State: Send, Snapshot: Send>,
    {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let local = LocalStore::builder().clock(clock.clone()).build();
        let redis = patient(server.client().await).prefix(name).clock(clock);
        let in_memory = left_of_each(local, rule.clone(), name).await;
        assert_eq!(in_memory, expected, "{name}");
        let in_redis = left_of_each(redis.build(), rule, name).await;
        assert_eq!(in_redis, expected, "{name}");
    }
    let (server, day) = (Server::start().await, Quota::per_day(100));
    let queue = || LeakyBucket::new(Quota::per_second(10)).queue();
    let (bucket, log) = (TokenBucket::new(day).settled(), SlidingLog::new(day));
    let window = || FixedWindow::new(day).settled();
    let all: [&[u64]; 3] = [&[91, 1], &[94, 1], &[97, 4]];
    is_as_in_memory(&server, "bucket", (bucket.clone(), queue()), all).await;
    is_as_in_memory(&server, "log", (log.settled(), queue()), all).await;
    is_as_in_memory(&server, "window", (window(), queue()), all).await;
    is_as_in_memory(&server, "shadow", (window(), queue().shadow()), all).await;
    is_as_in_memory(&server, "held-in-shadow", (bucket.shadow(), queue()), all).await;
    // A queue that would refuse has no turn to give back.
    let full = queue().capacity(0).shadow();
    let beside: [&[u64]; 3] = [&[0, 91, 1], &[0, 94, 1], &[0, 97, 4]];
    is_as_in_memory(&server, "full", (full.clone(), window(), queue()), beside).await;
    let requests: [&[u64]; 3] = [&[0, 7, 91], &[0, 7, 94], &[0, 8, 97]];
    let counted = (full, queue().per_request(), window());
    is_as_in_memory(&server, "requests", counted, requests).await;
}
