//! A known outage costs no request the deadline: a server that misses deadlines again and again is
//! probed, and gets no decisions until a probe is answered in time.

use std::time::Duration;

use fred::{clients::Client, types::Builder};
use tokio::time::{Instant, sleep};
use tollgate::{
    EachOf, OnStoreError, Quota, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, TokenBucket},
    store::{RedisConnection, RedisStore},
};
use tollgate_redis_tests::{Cluster, Command, Monitor, Proxy, Server, centralized, comes, until};

use crate::{
    events::{beginning, listen, logged_of},
    traffic::{Answer, DEADLINE, TASKS, Traffic, count, plenty},
};

const STOPPED: &str = "Redis misses every deadline";
const GOES_ON: &str = "Redis gets decisions again";

fn store(connection: impl Into<RedisConnection>) -> RedisStore {
    listen();
    crate::traffic::store(connection)
}

/// A store, and a limiter over it whose script has run.
async fn that_decided(server: &Server) -> (RedisStore, RateLimiter<FixedWindow, RedisStore>) {
    let store = store(server.client().await);
    let limiter = RateLimiter::new(plenty(), store.clone());
    limiter.check(&7_u32).await.unwrap();
    (store, limiter)
}

/// How many requests took most of the deadline, and how many were answered that the store is
/// unavailable, while all callers asked again and again for so long.
async fn slow_and_failed(store: &RedisStore, lasting: Duration) -> (usize, usize) {
    let traffic = Traffic::through(store, OnStoreError::Refuse);
    sleep(lasting).await;
    let seen = traffic.end().await;
    let failed = count(&seen, Answer::Unavailable);
    assert_eq!(failed + count(&seen, Answer::Admitted), seen.len());
    let slow = seen.iter().filter(|seen| seen.took > DEADLINE * 3 / 4);
    (slow.count(), failed)
}

const CALLERS: usize = TASKS as usize;
/// One for each caller, and as many again on a busy machine.
const FEW: usize = 2 * CALLERS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_costs_each_caller_one_deadline_and_no_more() {
    let server = Server::start().await;
    let (store, limiter) = that_decided(&server).await;
    server.stop_process();
    // So long that its connection is not given up yet.
    let hung = Duration::from_millis(1_100);
    let (slow, failed) = slow_and_failed(&store, hung).await;
    assert!((1..=FEW).contains(&slow), "{slow} of {failed}");
    assert!(failed > 20 * CALLERS, "{failed}");
    assert_eq!(store.usage().unavailable, failed as u64);
    server.continue_process();
    let back = Instant::now();
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
    let took = back.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// With leases as without, and for several keys as for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_known_outage_a_remembered_refusal_does_not_answer() {
    for fails in [Server::kill, Server::stop_process] {
        let server = Server::start().await;
        no_refusal_is_remembered_once(server.client().await, async || fails(&server)).await;
        let cluster = Cluster::start().await;
        let all_fail = async || {
            for node in cluster.primaries().await {
                fails(&cluster.nodes()[node]);
            }
        };
        no_refusal_is_remembered_once(cluster.client().await, all_fail).await;
    }
}

async fn no_refusal_is_remembered_once(client: Client, all_fail: impl AsyncFn()) {
    let store = RedisStore::builder(client)
        .deadline(DEADLINE)
        .hash_tag("one");
    let store = store.remember_refusals(Duration::from_secs(60)).build();
    let rule = || FixedWindow::new(Quota::per_day(1)).from_first_request();
    let (alone, leased) = (store.clone(), store.leased(Duration::from_secs(1)));
    let [alone, leased] = [alone, leased].map(|store| RateLimiter::new(rule(), store));
    let both = RateLimiter::new(EachOf((rule(), rule().named("other"))), store.clone());
    let check = async |limiter: usize, key: u32| match limiter {
        0 => alone.check(&key).await,
        1 => leased.check(&key).await,
        _ => both.check(&EachOf((Some(key), Some(key)))).await,
    };
    for limiter in 0..3 {
        let remembered = async || {
            let _ = check(limiter, 7).await;
            store.usage().remembered > limiter as u64
        };
        comes("a remembered refusal", remembered).await;
    }
    all_fail().await;
    for limiter in 0..3 {
        until("an outage that is known", async || {
            // What is remembered asks nobody: another key does.
            let _ = check(limiter, 8).await;
            check(limiter, 7).await.err()
        })
        .await;
        let before = store.usage().remembered;
        for _ in 0..10 {
            assert!(check(limiter, 7).await.is_err());
        }
        assert_eq!(store.usage().remembered, before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_dead_costs_nobody_the_deadline() {
    let server = Server::start().await;
    let (store, _) = that_decided(&server).await;
    server.kill();
    let second = Duration::from_secs(1);
    let (slow, failed) = slow_and_failed(&store, second).await;
    assert!(slow <= CALLERS, "{slow} of {failed}");
    assert!(failed > 20 * CALLERS, "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_always_answers_too_late_is_probed_now_and_then() {
    let server = Server::start().await;
    // There and back it takes longer than the deadline.
    let proxy = Proxy::start(server.port(), DEADLINE * 3 / 5).await;
    let client = Builder::from_config(centralized(proxy.port())).build();
    let store = store(client.unwrap());
    let limiter = RateLimiter::new(plenty(), store.clone());
    let kind = async || limiter.check(&7_u32).await.unwrap_err().kind();
    let is_known = async || kind().await == StoreErrorKind::Unavailable;
    comes("the first second", is_known).await;
    let before = server.command_calls("evalsha").await;
    let mut monitor = Monitor::of(&server);
    let three_seconds = Duration::from_secs(3);
    let (slow, failed) = slow_and_failed(&store, three_seconds).await;
    let _: String = server.command("ECHO", &["over"]).await;
    // Nine probes need more time, even with the shortest jitter, as each waits for the answer to
    // the one before and for its pause: 8 times 300 ms, and the halves of 20 ms, 40 ms and so on.
    let is_probe = |told: &Command| told.words.iter().any(|word| *word == "0".repeat(40));
    let probes = monitor
        .up_to("over")
        .iter()
        .filter(|told| is_probe(told))
        .count();
    assert!((1..=8).contains(&probes), "{probes} probes");
    let asked = server.command_calls("evalsha").await - before;
    assert!(slow <= FEW, "{slow} of {failed}");
    assert!(failed > 50 * CALLERS, "{failed}");
    let are_few = (1..=10 + FEW as u64).contains(&asked);
    assert!(are_few, "{asked} of {failed}");
    assert_eq!(store.usage().reconnects, 0);
    // One event says that decisions stopped.
    let told = logged_of(proxy.port());
    assert_eq!(beginning(&told, STOPPED).len(), 1, "{told:?}");
    assert_eq!(beginning(&told, GOES_ON).len(), 0, "{told:?}");
    // The connection is as fast as any: one event says that decisions go on.
    proxy.set_delay(Duration::ZERO);
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
    let goes_on = async || beginning(&logged_of(proxy.port()), GOES_ON).len() == 1;
    comes("the end", goes_on).await;
}

/// A script that Redis has never run may be set up wrongly: while it is not known, nobody is let
/// through for a missing answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_whose_first_call_is_not_sent_is_not_known_to_run() {
    let server = Server::start().await;
    let (store, limiter) = that_decided(&server).await;
    server.stop_process();
    for _ in 0..4 {
        limiter.check(&7_u32).await.unwrap_err();
    }
    let start = Instant::now();
    let other = RateLimiter::new(TokenBucket::new(Quota::per_day(1)), store.clone());
    let error = other.check(&7_u32).await.unwrap_err();
    if start.elapsed() < DEADLINE {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    }
    let third = RateLimiter::new(FixedWindow::new(Quota::per_day(1)), store);
    assert!(third.debit(&7_u32, 1).await.is_err());
    server.continue_process();
}
