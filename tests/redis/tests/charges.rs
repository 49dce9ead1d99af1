//! When scripts, connections or requests are lost, nothing is charged twice, and no script is
//! loaded twice.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tokio::time::Instant;
use tollgate::{
    OnStoreError, Quota, RateLimiter, StoreErrorKind, Timestamp,
    algorithm::{FixedWindow, LeakyBucket, Scripted, SlidingLog, SlidingWindow, TokenBucket},
    clock::ManualClock,
    store::{LocalStore, RedisConnection, RedisStore},
};
use tollgate_redis_tests::{Redis, Server, until, within};

use crate::traffic::{Answer, PREFIX, Seen, Traffic, UNITS, charged, plenty, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_gone_is_loaded_once_and_nobody_sees_it() {
    let server = Server::start().await;
    let store = store(server.client().await);
    let traffic = Traffic::through(&store, OnStoreError::Refuse);
    traffic.is_decided().await;
    for _ in 0..5 {
        let _: String = server.command("SCRIPT", &["FLUSH"]).await;
        traffic.is_decided().await;
    }
    let _: String = server.command("FLUSHALL", &[]).await;
    traffic.is_decided().await;
    let seen = traffic.end().await;
    assert!(seen.iter().all(|seen| seen.answer == Answer::Admitted));
    assert_eq!(server.command_calls("script|load").await, 6);
    assert_eq!(server.keys_without_ttl(PREFIX).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_before_a_connection_was_lost_is_not_sent_again() {
    let server = Server::start().await;
    let store = store(server.client().await);
    let traffic = Traffic::through(&store, OnStoreError::Refuse);
    traffic.is_decided().await;
    let since = Instant::now();
    let was_cut_off = |seen: Seen| seen.answer == Answer::Unavailable;
    // Most requests are answered before the next one comes. So this goes on until a request was
    // under way when its connection was lost.
    for number in 0.. {
        if number >= 10 && traffic.since(since).any(was_cut_off) {
            break;
        }
        assert!(number < 500, "no request was under way");
        let _: i64 = server.command("CLIENT", &["KILL", "TYPE", "normal"]).await;
        traffic.is_decided().await;
    }
    let seen = traffic.end().await;
    let admitted = seen.iter().filter(|seen| seen.answer == Answer::Admitted);
    let (admitted, charged) = (admitted.count() as u64, charged(&store).await);
    let possible = admitted..=seen.len() as u64;
    assert!(possible.contains(&charged), "{charged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_wait_for_an_answer_than_may_and_dropped_ones_count_among_them() {
    let server = Server::start().await;
    let store = RedisStore::builder(server.client().await)
        .deadline(Duration::from_secs(5))
        .max_unanswered(50)
        .build();
    let limiter = RateLimiter::new(plenty(), store.clone());
    limiter.check(&7_u32).await.unwrap();
    server.stop_process();
    for _ in 0..200 {
        let asked = limiter.check(&7_u32);
        let answer = tokio::time::timeout(Duration::from_millis(1), asked).await;
        if let Ok(answer) = answer {
            assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Unavailable);
        }
    }
    let asked = limiter.check(&7_u32);
    let error = within(Duration::from_secs(1), "an answer at once", asked).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("too many decisions"), "{error}");
    server.continue_process();
    let back = Instant::now();
    let decided = async || limiter.check(&7_u32).await.ok();
    let decision = until("a decision", decided).await;
    assert!(back.elapsed() < Duration::from_secs(1));
    assert!(decision.remaining() >= UNITS - 52, "{decision:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_stores_on_one_client_do_not_disturb_what_else_it_is_asked() {
    let server = Server::start().await;
    let client = server.client().await;
    let traffic = Traffic::through(&store(client.clone()), OnStoreError::Refuse);
    let other = Traffic::through(&store(client.clone()), OnStoreError::Refuse);
    traffic.is_decided().await;
    for number in 0..1000_u32 {
        use fred::interfaces::KeysInterface;
        if number % 100 == 0 {
            let _: String = server.command("SCRIPT", &["FLUSH"]).await;
        }
        let () = client.set("mine", number, None, None, false).await.unwrap();
        let read: u32 = client.get("mine").await.unwrap();
        assert_eq!(read, number);
    }
    for traffic in [traffic, other] {
        let seen = traffic.end().await;
        assert!(seen.iter().all(|seen| seen.answer == Answer::Admitted));
    }
}

#[tokio::test]
async fn processes_whose_clocks_are_a_minute_apart_get_no_more_than_one_would() {
    let (server, mut admitted) = (Server::start().await, 0);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let bucket = TokenBucket::new(Quota::per_second(5));
    let processes = [60, 120].map(|seconds| {
        let clock = ManualClock::at(Timestamp::from_micros(seconds * 1_000_000));
        let store = RedisStore::builder(RedisConnection::from_url(&url).unwrap());
        let store = store.clock(clock.clone()).build();
        (RateLimiter::new(bucket.clone(), store), clock)
    });
    for (limiter, clock) in processes.iter().cycle().take(200) {
        admitted += u32::from(limiter.check("bob").await.unwrap().is_admitted());
        clock.advance(Duration::from_millis(10));
    }
    assert!((5..=10).contains(&admitted), "{admitted}");
}

/// A call, its units, and the microseconds before it.
type Calls = Vec<(u8, u32, u64)>;

fn is_as_in_memory<A: Scripted<Snapshot: Send>>(
    redis: &Redis,
    limit: A,
    calls: &Calls,
) -> TestCaseResult {
    let clock = ManualClock::at(Timestamp::from_micros(1_000_000));
    let in_memory = LocalStore::builder().clock(clock.clone()).build();
    let in_memory = RateLimiter::new(limit.clone(), in_memory);
    let over_redis = RateLimiter::new(limit, redis.store(clock.clone()));
    let key = redis.new_key();
    for &(call, units, later) in calls {
        clock.advance(Duration::from_micros(later));
        match call {
            0 => {
                let decision = redis.wait(over_redis.check_cost(&key, units)).unwrap();
                prop_assert_eq!(decision, in_memory.check_cost(&key, units).now());
            }
            1 => {
                redis.wait(over_redis.debit(&key, units)).unwrap();
                in_memory.debit(&key, units).now();
            }
            _ => {
                redis.wait(over_redis.refund(&key, units)).unwrap();
                in_memory.refund(&key, units).now();
            }
        }
    }
    Ok(())
}

#[test]
fn a_check_of_a_settled_limit_charges_what_it_would_in_memory_in_every_field() {
    let redis = Redis::start();
    let calls = || prop::collection::vec((0..3_u8, 1..=6_u32, 0..=4_u64), 1..=40);
    redis.for_all(150, calls, |calls| {
        let (quota, held) = (
            Quota::new(5, Duration::from_micros(10)),
            Duration::from_micros(3),
        );
        let bucket = || {
            TokenBucket::new(quota)
                .named("b")
                .settled()
                .held_at_most(held)
        };
        let log = SlidingLog::new(quota)
            .named("l")
            .settled()
            .held_at_most(held);
        let window = FixedWindow::new(quota)
            .named("w")
            .settled()
            .held_at_most(held);
        is_as_in_memory(&redis, bucket(), &calls)?;
        is_as_in_memory(&redis, log, &calls)?;
        is_as_in_memory(&redis, window, &calls)?;
        let queue = LeakyBucket::new(quota).queue().named("q");
        is_as_in_memory(&redis, (bucket(), queue), &calls)
    });
}

/// Requests that are held count for a limit of the same name that charges at once.
#[tokio::test]
async fn each_request_that_is_held_counts_once_by_all_limits_that_count_requests() {
    let server = Server::start().await;
    let store = store(server.client().await);
    let quota = Quota::per_day(9);
    macro_rules! counts_once {
        ($($rule:ty),+) => {$(
            let requests = <$rule>::new(quota).named("requests").per_request();
            let plain = RateLimiter::new(requests.clone(), store.clone());
            let limiter = RateLimiter::new(requests.settled(), store.clone());
            let mut held = Vec::new();
            for left in (0..9).rev() {
                held.push(limiter.hold("bob", 70).await.unwrap().unwrap());
                assert_eq!(plain.peek("bob").await.unwrap().remaining(), left);
            }
            let refused = plain.check_cost("bob", 70).await.unwrap();
            assert!(!refused.is_admitted() && !refused.never_fits(), "{refused:?}");
            held.pop().unwrap().settle(0).await.unwrap();
            held.pop().unwrap().settle(3).await.unwrap();
            assert_eq!(plain.peek("bob").await.unwrap().remaining(), 1);
        )+};
    }
    counts_once!(FixedWindow, SlidingWindow, SlidingLog, TokenBucket);
}
