//! What an operator is told about a store, and can ask it: one event for each change, then at most
//! one a second, and counts.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tollgate::{
    OnStoreError, Quota, RateLimiter, StoreErrorKind,
    algorithm::FixedWindow,
    store::{RedisConnection, RedisStore},
};
use tollgate_redis_tests::{Server, comes, unconnected, until};
use tracing::Level;

use crate::{
    events::{beginning, listen, logged_by, logged_of},
    traffic::{Answer, Traffic, count, plenty},
};

/// How long a decision may take here: only a fault of the server makes one late.
const DEADLINE: Duration = Duration::from_secs(1);

const UNAVAILABLE: &str = "the store is unavailable";
const MISCONFIGURED: &str = "the store is set up wrongly";
const RECOVERED: &str = "the store has recovered";
const LOST: &str = "lost a connection to Redis";
const AGAIN: &str = "connected to Redis again";
const STRANGER: &str = "the key has a value that no store wrote";

fn store(connection: impl Into<RedisConnection>, prefix: &str) -> RedisStore {
    listen();
    RedisStore::builder(connection)
        .prefix(prefix)
        .deadline(DEADLINE)
        .build()
}

/// Ends a crowd: how many decisions were made for it, and how many were not.
async fn decided_and_failed(crowd: Traffic) -> (u64, u64) {
    let seen = crowd.end_in_any_time().await;
    let decided = count(&seen, Answer::Admitted);
    (decided as u64, (seen.len() - decided) as u64)
}

/// A crowd meets a fault: the store becomes unavailable once and recovers once, and all that failed
/// is counted.
async fn is_told_once(prefix: &'static str, fault: impl Fn(&Server), ends: impl AsyncFn(&Server)) {
    let server = Server::start().await;
    let store = store(server.client().await, prefix);
    let limiter = RateLimiter::new(plenty(), store.clone());
    limiter.check(&7_u32).await.unwrap();
    let begin = Instant::now();
    let crowd = Traffic::through(&store, OnStoreError::Refuse);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(logged_by(prefix).len(), 0);
    fault(&server);
    sleep(Duration::from_secs(4)).await;
    assert!(store.usage().unavailable > 0);
    ends(&server).await;
    sleep(Duration::from_secs(4)).await;
    let (decided, failed) = decided_and_failed(crowd).await;
    until("an end", async || {
        limiter.check(&7_u32).await.ok()?;
        (!beginning(&logged_by(prefix), RECOVERED).is_empty()).then_some(())
    })
    .await;
    let seconds = begin.elapsed().as_secs() as usize;

    let told = logged_by(prefix);
    let unavailable = beginning(&told, UNAVAILABLE);
    let recovered = beginning(&told, RECOVERED);
    assert_eq!(recovered.len(), 1, "{told:?}");
    // The first at once, and then one a second.
    assert!((2..=1 + seconds).contains(&unavailable.len()), "{told:?}");
    assert_eq!(unavailable[0].number("failed"), 1);
    assert_eq!(
        (unavailable[0].level, recovered[0].level),
        (Level::WARN, Level::INFO)
    );
    assert!(unavailable[0].fields.contains(" error="), "{told:?}");
    assert!(decided > 0 && failed > 0, "{decided}, {failed}");
    assert_eq!(recovered[0].number("failed"), failed);
    let counted: u64 = unavailable.iter().map(|told| told.number("failed")).sum();
    assert!(counted <= failed, "{counted} of {failed}");

    let usage = store.usage();
    println!("{usage:?}");
    assert_eq!(usage.unavailable, failed);
    assert!(usage.admitted > decided);
    let others = [usage.refused, usage.misconfigured, usage.invalid];
    assert_eq!(others, [0; 3]);
    assert_eq!(usage.in_flight, 0);
    assert!(usage.last_answer.unwrap().elapsed() < Duration::from_secs(30));
    let told = logged_of(server.port());
    assert_eq!(beginning(&told, LOST).len(), 1, "{told:?}");
    assert_eq!(beginning(&told, AGAIN).len(), 1, "{told:?}");
    assert_eq!(usage.reconnects, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_or_stops_is_told_once_and_its_connection_too() {
    let restart = async |server: &Server| server.restart().await;
    is_told_once("killed", Server::kill, restart).await;
    let goes_on = async |server: &Server| server.continue_process();
    is_told_once("stopped", Server::stop_process, goes_on).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_once_and_then_once_a_second() {
    let server = Server::start_with(&["--requirepass", "secret"]).await;
    let client = unconnected(server.config_of("default", "other"));
    let store = store(client, "password");
    let begin = Instant::now();
    let crowd = Traffic::through(&store, OnStoreError::Refuse);
    sleep(Duration::from_secs(3)).await;
    let (decided, failed) = decided_and_failed(crowd).await;
    let seconds = begin.elapsed().as_secs() as usize;
    let told = logged_by("password");
    let events = beginning(&told, MISCONFIGURED);
    assert!((2..=1 + seconds).contains(&events.len()), "{told:?}");
    assert_eq!(events[0].level, Level::ERROR);
    let says_why = |told: &&crate::events::Logged| told.fields.contains("WRONGPASS");
    assert!(events[1..].iter().all(says_why), "{told:?}");
    let usage = store.usage();
    assert_eq!((decided, usage.misconfigured), (0, failed));
    let others = [usage.unavailable, usage.admitted, usage.reconnects];
    assert_eq!(others, [0; 3]);
    assert_eq!(usage.last_answer, None);
    // No other events, however many callers come.
    assert_eq!(told.len(), events.len(), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_value_is_named_by_its_key_at_most_once_a_second() {
    let server = Server::start().await;
    let store = store(server.client().await, "strange");
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(9)), store.clone());
    let callers: Vec<_> = (0..20).map(|number| format!("caller\n{number}")).collect();
    for caller in &callers {
        limiter.check(caller).await.unwrap();
    }
    let keys = server.keys("strange").await;
    for key in &keys {
        let key = std::str::from_utf8(key).unwrap();
        let _: String = server.command("SET", &[key, "another's"]).await;
    }
    let begin = Instant::now();
    let error = limiter.check(&callers[0]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::InvalidInput);
    let told = logged_by("strange");
    let [told] = &*told else { panic!("{told:?}") };
    let is_named = |key: &&bytes::Bytes| {
        let name = key.escape_ascii().to_string();
        told.fields.contains(&format!("keys={name} ")) && name.contains("caller")
    };
    assert_eq!(keys.iter().filter(is_named).count(), 1, "{told:?}");
    for caller in callers.iter().cycle().take(500) {
        limiter.check(caller).await.unwrap_err();
    }
    sleep(Duration::from_secs(1)).await;
    limiter.check(&callers[0]).await.unwrap_err();
    let seconds = begin.elapsed().as_secs() as usize;
    let told = logged_by("strange");
    let events = beginning(&told, STRANGER);
    assert!((2..=1 + seconds).contains(&events.len()), "{told:?}");
    let unlogged: u64 = events.iter().map(|told| told.number("unlogged")).sum();
    assert_eq!(events.len() as u64 + unlogged, 502);
    assert_eq!(store.usage().invalid, 502);
    // It is a problem of one caller, and no outage of the store.
    limiter.check("another").await.unwrap();
    assert_eq!((store.usage().admitted, store.usage().unavailable), (21, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_are_counted_by_how_they_end_and_looks_are_not() {
    let server = Server::start().await;
    let store = store(server.client().await, "counted");
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(3)), store.clone());
    let clone = store.clone();
    for _ in 0..5 {
        limiter.check(&7_u32).await.unwrap();
        limiter.peek(&7_u32).await.unwrap();
    }
    limiter.refund(&7_u32, 1).await.unwrap();
    limiter.reset(&7_u32).await.unwrap();
    let usage = clone.usage();
    assert_eq!((usage.admitted, usage.refused, usage.in_flight), (3, 2, 0));
    assert_eq!((usage.unavailable, usage.misconfigured), (0, 0));

    // Decisions whose callers go away are in flight until then, and in none of the counts.
    server.stop_process();
    let four = (0..4_u32).map(|key| (limiter.clone(), key));
    let mut asking: JoinSet<_> = four
        .map(|(limiter, key)| async move { limiter.check(&key).await.map(drop) })
        .collect();
    comes("four in flight", async || store.usage().in_flight == 4).await;
    asking.shutdown().await;
    comes("none in flight", async || store.usage().in_flight == 0).await;
    server.continue_process();
    let usage = store.usage();
    let counts = [usage.admitted, usage.refused, usage.unavailable];
    assert_eq!(counts, [3, 2, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_made_anew_is_counted_and_a_flapping_one_told_once_a_second() {
    let server = Server::start().await;
    let store = store(server.client().await, "flapping");
    let limiter = RateLimiter::new(plenty(), store.clone());
    limiter.check(&7_u32).await.unwrap();
    assert_eq!(store.usage().reconnects, 0);
    let begin = Instant::now();
    for number in 1..=12 {
        let _: i64 = server.command("CLIENT", &["KILL", "TYPE", "normal"]).await;
        comes("a connection", async || store.usage().reconnects >= number).await;
    }
    until("a decision", async || limiter.check(&7_u32).await.ok()).await;
    let seconds = begin.elapsed().as_secs() as usize;
    let told = logged_of(server.port());
    let lost = beginning(&told, LOST).len();
    assert!((1..=1 + seconds).contains(&lost), "{told:?}");
    assert_eq!(store.usage().reconnects, 12);
}
