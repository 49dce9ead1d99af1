//! Decisions about a key that are asked while another one is on its way share a call, and are those
//! of one after the other.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use futures_util::future::join_all;
use proptest::{collection::vec, prelude::*, test_runner::TestCaseError};
use tokio::time::{Instant, sleep};
use tollgate::{
    Decision, Quota, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, TokenBucket},
    clock::ManualClock,
    store::RedisStore,
};
use tollgate_properties::{
    numbers::{held, numbers},
    subject::{Subject, instant},
};
use tollgate_redis_tests::{
    Proxy, Redis, Server, centralized, comes, connect, crowd, every_algorithm, patient, until,
    within,
};

use crate::slow::holds_over_redis::every_limit;

const START: i128 = 1_700_000_000_000_000;
const HISTORIES: u32 = 40;

/// What is asked at each instant: how much later it is, and the costs.
type Rounds = Vec<(u16, Vec<u32>)>;

fn rounds(costs: impl Strategy<Value = Vec<u32>>) -> impl Strategy<Value = Rounds> {
    vec((prop_oneof![0..=9_u16, any::<u16>()], costs), 1..=4)
}

/// How many decisions have shared calls, and how many at most.
#[derive(Default)]
struct Shared {
    found: AtomicU64,
    most: AtomicU64,
}

impl Shared {
    /// On a loaded machine a few come after the one before was answered.
    fn are_most(self) {
        let (found, most) = (self.found.into_inner(), self.most.into_inner());
        assert!(found * 2 > most, "{found} of {most}");
    }
}

/// What is asked at one instant is decided as if it was asked in turn; in any turn, unless it is
/// `in_turn`.
fn are_as_in_turn(
    redis: &Redis,
    subjects: &[Subject],
    rounds: &Rounds,
    is_in_turn: bool,
    shared: &Shared,
) -> Result<(), TestCaseError> {
    for subject in subjects {
        let clock = ManualClock::at(instant(START));
        let store = redis.store(clock.clone());
        let limiter = || subject.bucket.limiter_over(store.clone(), redis.new_key());
        let (together, in_turn) = (limiter(), limiter());
        for (later, costs) in rounds {
            clock.advance(Duration::from_micros((*later).into()));
            let asked = costs.iter().map(|&cost| together.check(cost));
            let together = redis.wait(join_all(asked)).into_iter();
            let turns = costs.iter().map(|&cost| redis.wait(in_turn.check(cost)));
            let mut both = [
                together.flatten().collect::<Vec<_>>(),
                turns.flatten().collect(),
            ];
            if !is_in_turn {
                let by_text = |it: &mut Vec<_>| it.sort_by_cached_key(|it| format!("{it:?}"));
                both.iter_mut().for_each(by_text);
            }
            prop_assert_eq!(&both[0], &both[1], "{}", subject.name);
            // The first is on its own, and one who waits alone.
            let most = if costs.len() > 2 { costs.len() - 1 } else { 0 };
            shared.most.fetch_add(most as u64, Relaxed);
        }
        shared.found.fetch_add(store.usage().joined, Relaxed);
    }
    Ok(())
}

#[test]
fn decisions_that_share_a_call_are_those_of_one_after_the_other() {
    let (redis, shared) = (Redis::start(), Shared::default());
    let costs = || vec(prop_oneof![1..=3_u32, 1..=1_u32, 1..=u32::MAX], 0..=20);
    redis.for_all(
        HISTORIES,
        || (numbers(), rounds(costs())),
        |(numbers, rounds)| {
            are_as_in_turn(&redis, &every_algorithm(&numbers), &rounds, true, &shared)
        },
    );
    shared.are_most();
}

/// The decisions of holds are made in tasks of their own, in any order.
#[test]
fn holds_that_share_a_call_are_those_of_one_after_the_other() {
    let (redis, shared) = (Redis::start(), Shared::default());
    let costs = || (1..=3_u32, 0..=20_usize).prop_map(|(cost, count)| vec![cost; count]);
    redis.for_all(
        HISTORIES,
        || (held(0..=6), rounds(costs())),
        |(held, rounds)| are_as_in_turn(&redis, &every_limit(held), &rounds, false, &shared),
    );
    shared.are_most();
}

#[test]
fn a_crowd_of_one_key_shares_calls_of_at_most_64() {
    let redis = Redis::start();
    let bucket = TokenBucket::new(Quota::per_hour(500));
    let limiter = RateLimiter::new(bucket, redis.store_with_prefix("t"));
    let checks = |count| (0..count).map(|_| limiter.check("bob"));
    redis.wait(join_all(checks(3)));
    redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
    let crowd = redis.wait(join_all(checks(1_000)));
    let admitted = crowd.into_iter().map(|it| it.unwrap().is_admitted());
    assert_eq!(admitted.filter(|it| *it).count(), 497);
    let scripts = redis.scripts_run();
    // The first one alone, and 999 by 64, makes 17. On a loaded machine some are answered before
    // all have asked.
    assert!((17..=50).contains(&scripts), "{scripts}");
}

/// The first is on its way; of those who wait for the next call some go away.
#[tokio::test]
async fn who_goes_away_before_its_call_is_sent_is_not_charged() {
    let server = Server::start().await;
    let window = FixedWindow::new(Quota::per_hour(100));
    let limiter = RateLimiter::new(window, patient(server.client().await).build());
    assert_eq!(limiter.check("bob").await.unwrap().remaining(), 99);
    let mut first = Box::pin(limiter.check("bob"));
    let mut gone: Vec<_> = (0..30)
        .map(|_| Box::pin(limiter.check_cost("bob", 2)))
        .collect();
    let mut patient = Box::pin(limiter.check("bob"));
    std::future::poll_fn(|cx| {
        assert!(first.as_mut().poll(cx).is_pending());
        gone.iter_mut()
            .for_each(|one| assert!(one.as_mut().poll(cx).is_pending()));
        assert!(patient.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    drop(gone);
    assert_eq!(first.await.unwrap().remaining(), 98);
    assert_eq!(patient.await.unwrap().remaining(), 97);
}

/// The answers to some take longer than half of the deadline: nobody waits for them and for an
/// answer of its own.
#[tokio::test]
async fn a_server_that_is_slow_but_in_time_answers_everybody_in_time() {
    const DEADLINE: Duration = Duration::from_millis(2_000);
    let server = Server::start().await;
    let proxy = Proxy::start(server.port(), Duration::from_millis(600)).await;
    let store = RedisStore::builder(connect(centralized(proxy.port())).await);
    let store = store.deadline(DEADLINE).build();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_hour(1_000_000)), store.clone());
    until("an answer", async || limiter.check("bob").await.ok()).await;
    comes("shared ones", async || {
        let _ = join_all((0..3).map(|_| limiter.check("bob"))).await;
        store.usage().joined > 0
    })
    .await;
    // For as long as the deadline.
    let asked = crowd(400, &limiter, |limiter, number| async move {
        sleep(number * Duration::from_millis(5)).await;
        limiter.check("bob").await.unwrap()
    });
    assert!(asked.await.iter().all(Decision::is_admitted));
}

/// A crowd, while the server hangs: everybody is told at its own deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_one_key_waits_no_longer_than_each_ones_deadline() {
    const DEADLINE: Duration = Duration::from_millis(200);
    let server = Server::start().await;
    let store = RedisStore::builder(server.client().await).deadline(DEADLINE);
    let store = store.build();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_hour(1_000_000)), store);
    until("an answer", async || limiter.check("bob").await.ok()).await;
    server.stop_process();
    let told = crowd(300, &limiter, |limiter, number| async move {
        sleep(number * Duration::from_millis(1)).await;
        let since = Instant::now();
        let error = limiter.check("bob").await.unwrap_err();
        (error.kind(), since.elapsed())
    });
    let told = within(Duration::from_secs(10), "what each is told", told);
    for (kind, waited) in told.await {
        assert_eq!(kind, StoreErrorKind::Unavailable);
        assert!(waited < DEADLINE + Duration::from_millis(150), "{waited:?}");
    }
    server.continue_process();
    until("an answer", async || limiter.check("bob").await.ok()).await;
}
