//! When scripts, connections or requests are lost, nothing is charged twice, and no script is
//! loaded twice.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::{
    OnStoreError, Quota, RateLimiter, StoreErrorKind, Timestamp,
    algorithm::TokenBucket,
    clock::ManualClock,
    store::{RedisConnection, RedisStore},
};
use tollgate_redis_tests::{Server, until, within};

use crate::traffic::{Answer, PREFIX, Seen, Traffic, UNITS, charged, count, plenty, store};

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
    let (loads, flushes) = (6, 5);
    assert_eq!(server.command_calls("script").await, loads + flushes);
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
    let [admitted, cut_off] =
        [Answer::Admitted, Answer::Unavailable].map(|answer| count(&seen, answer));
    assert_eq!(admitted + cut_off, seen.len());
    // Each that was cut off was decided about once, or not at all.
    let (charged, possible) = (charged(&store).await, admitted as u64..=seen.len() as u64);
    assert!(possible.contains(&charged), "{charged} of {possible:?}");
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
