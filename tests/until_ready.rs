//! Waiting by hand until a cost is admitted.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tollgate::{
    Quota, RateLimiter, StoreErrorKind, algorithm::*, choice::Reloadable, store::Store,
};

use crate::stores::over_every_store;
use crate::support::Flapping;
use crate::tokio_time::{START, is_due, millis, store};
use tollgate_algorithms::for_every_algorithm;

/// 64 workers of one key, who each wait for so many turns: how long the longest took, and all of
/// them.
async fn longest_wait<A, S>(rule: A, store: S, turns: usize) -> (Duration, Duration)
where
    A: KeyLimit,
    S: Store<A, String, Deciding: Send> + Send + Sync + 'static,
    A::Snapshot: Sync,
{
    let limiter = Arc::new(RateLimiter::new(rule, store));
    let (start, mut workers) = (Instant::now(), JoinSet::new());
    for _ in 0..64 {
        let limiter = Arc::clone(&limiter);
        workers.spawn(async move {
            let mut longest = Duration::ZERO;
            for _ in 0..turns {
                let asked = Instant::now();
                let decision = limiter.until_ready("tenant", 1).await.unwrap();
                assert!(decision.is_admitted());
                longest = longest.max(asked.elapsed());
            }
            longest
        });
    }
    let longest = workers.join_all().await.into_iter().max();
    (longest.unwrap(), start.elapsed())
}

/// How long 64 turns take at the longest where one caller takes each as soon as there is one.
fn fair_wait<A: KeyLimit>(rule: &A) -> Duration {
    let (mut now, mut turns) = (START, Vec::new());
    let mut state = rule.fresh(now);
    while turns.len() < 5 * 64 {
        let (admitted, snapshot) = rule.step(&mut state, 1, now);
        let decision = rule.decision_of(&snapshot);
        match decision.retry_after() {
            Some(wait) => now = now.saturating_add(wait),
            None => turns.push(now.saturating_add(decision.delay()).as_micros()),
        }
        assert_eq!(admitted, decision.is_admitted());
    }
    let of_64 = turns.windows(65).map(|turns| turns[64] - turns[0]);
    Duration::from_micros(of_64.max().unwrap())
}

#[tokio::test(start_paused = true)]
async fn of_64_workers_nobody_waits_longer_than_one_and_a_half_fair_turns_whatever_the_rule() {
    let (quota, precision) = (Quota::per_second(50), millis(100));
    let interval = millis(200);
    for burst in [1, 5, 50] {
        for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
            let fair = fair_wait(&rule);
            over_every_store!(store(), |store| {
                let (longest, all) = longest_wait(rule.clone(), store, 5).await;
                assert!(longest <= fair * 3 / 2, "{name}: {longest:?} of {fair:?}");
                assert!(all <= fair * 5 * 5 / 4, "{name}: {all:?} for all");
            });
        });
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_is_served_first_and_a_smaller_cost_does_not_overtake() {
    let bucket = TokenBucket::new(Quota::per_second(10));
    let limiter = RateLimiter::new(bucket, store::<_, String>());
    let (limiter, served) = (Arc::new(limiter), Arc::new(Mutex::new(Vec::new())));
    assert!(limiter.check_cost("bob", 10).await.unwrap().is_admitted());
    let mut workers = JoinSet::new();
    for (number, cost) in [5, 1, 3, 1, 2].into_iter().enumerate() {
        let (limiter, served) = (Arc::clone(&limiter), Arc::clone(&served));
        workers.spawn(async move {
            limiter.until_ready("bob", cost).await.unwrap();
            served.lock().await.push(number);
        });
        tokio::task::yield_now().await;
    }
    workers.join_all().await;
    assert_eq!(*served.lock().await, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_charges_nothing_and_the_next_takes_the_turn_at_once() {
    let gcra = Gcra::new(Quota::per_second(10)).burst(1);
    let limiter = Arc::new(RateLimiter::new(gcra, store::<_, String>()));
    assert!(limiter.check("bob").await.unwrap().is_admitted());
    let (sender, mut served) = mpsc::unbounded_channel();
    let start = Instant::now();
    let mut workers: Vec<_> = (0..4)
        .map(|number| {
            let (limiter, sender) = (Arc::clone(&limiter), sender.clone());
            Some(tokio::spawn(async move {
                limiter.until_ready("bob", 1).await.unwrap();
                sender.send((number, start.elapsed())).unwrap();
            }))
        })
        .collect();
    sleep(millis(50)).await;
    // The first in line, who sleeps, and one behind him.
    for number in [0, 2] {
        workers[number].take().unwrap().abort();
    }
    for (number, due) in [(1, 100), (3, 200)] {
        let (served, at) = served.recv().await.unwrap();
        assert_eq!(served, number);
        assert!(is_due(at, due), "{served} at {at:?}");
    }
    let late = timeout(millis(50), limiter.until_ready("bob", 1)).await;
    assert!(late.is_err());
    sleep(millis(50)).await;
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_a_delay_gives_its_turn_back() {
    let queue: LeakyBucketQueue = LeakyBucket::new(Quota::per_second(10)).queue();
    let limiter = RateLimiter::new(queue, store::<_, String>());
    let first = limiter.until_ready("bob", 1).await.unwrap();
    assert!(first.delay().is_zero());
    let start = Instant::now();
    let dropped = timeout(millis(50), limiter.until_ready("bob", 1)).await;
    assert!(dropped.is_err());
    let admitted = limiter.until_ready("bob", 1).await.unwrap();
    assert!(is_due(start.elapsed(), 100), "{admitted:?}");
    // It has had its turn: that is not given back.
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 9);
}

#[tokio::test(start_paused = true)]
async fn what_never_fits_is_an_error_at_once() {
    let bucket = TokenBucket::new(Quota::per_day(3)).named("api");
    let limiter = RateLimiter::new(bucket, store::<_, String>());
    let error = limiter.until_ready("bob", 4).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::InvalidInput);
    let why = r#"a cost of 4 is more than "api" ever lets through, 3"#;
    assert!(error.to_string().ends_with(why), "{error}");
    assert!(limiter.until_ready("bob", 3).await.is_ok());
}

/// What ends a wait early: a change of the key, or of the limit.
#[derive(Debug, Clone, Copy)]
enum Change {
    Reset,
    Refund,
    Settle,
    Raise,
}

async fn is_noticed_within_a_second<S>(change: Change, store: S)
where
    S: Store<Settled<FixedWindow>, String>,
{
    let limit = |units| FixedWindow::new(Quota::per_hour(units)).named("api");
    let in_force = Reloadable::new(limit(2).settled());
    let limiter = RateLimiter::new(in_force.clone(), store);
    limiter.check("bob").await.unwrap();
    let hold = limiter.hold("bob", 1).await.unwrap().expect("it fits");
    let start = Instant::now();
    let first = async {
        assert!(limiter.until_ready("bob", 1).await.unwrap().is_admitted());
        start.elapsed()
    };
    let changed = async {
        sleep(millis(5_500)).await;
        match change {
            Change::Reset => limiter.reset("bob").await.unwrap(),
            Change::Refund => limiter.refund("bob", 1).await.unwrap(),
            Change::Settle => hold.settle(0).await.unwrap(),
            Change::Raise => in_force.replace(limit(3).settled()).unwrap(),
        }
    };
    let (served, ()) = tokio::join!(first, changed);
    assert!(is_due(served, 6_000), "{change:?}: {served:?}");
}

#[tokio::test(start_paused = true)]
async fn the_first_in_line_notices_within_a_second_that_there_is_room() {
    use Change::{Raise, Refund, Reset, Settle};

    for change in [Reset, Refund, Settle, Raise] {
        over_every_store!(store(), |store| {
            is_noticed_within_a_second(change, store).await
        });
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_in_line_notices_within_a_second_that_its_cost_never_fits_any_more() {
    let limit = |units| FixedWindow::new(Quota::per_hour(units)).named("api");
    let in_force = Reloadable::new(limit(2));
    let limiter = RateLimiter::new(in_force.clone(), store::<_, String>());
    limiter.check("bob").await.unwrap();
    let start = Instant::now();
    let (never, ()) = tokio::join!(limiter.until_ready("bob", 2), async {
        sleep(millis(5_500)).await;
        in_force.replace(limit(1)).unwrap();
    });
    assert_eq!(never.unwrap_err().kind(), StoreErrorKind::InvalidInput);
    assert!(is_due(start.elapsed(), 6_000), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_looked_at_ends_no_wait_and_makes_none_longer() {
    let gcra = Gcra::new(Quota::per_minute(10)).burst(1);
    let limiter = RateLimiter::new(gcra, Flapping::over(store::<_, String>()).blind());
    limiter.check("bob").await.unwrap();
    let start = Instant::now();
    limiter.until_ready("bob", 1).await.unwrap();
    assert!(is_due(start.elapsed(), 6_000), "{:?}", start.elapsed());
}
