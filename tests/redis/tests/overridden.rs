//! Keys that are refused or let through until an instant, over Redis.

use std::time::Duration;

use proptest::test_runner::TestCaseError;
use tokio::time::sleep;
use tollgate::{
    EachOf, Quota, RateLimiter, StoreErrorKind, Timestamp,
    algorithm::{FixedWindow, InFlight, SlidingLog},
    clock::{Clock, ManualClock, SystemClock},
    store::{EitherStore, LocalStore, RedisStore},
};
use tollgate_properties::{
    numbers::numbers,
    overridden::{decides_as_was_said, overridden_history},
    subject::instant,
};
use tollgate_redis_tests::{Redis, Server, crowd, every_algorithm, until};

use crate::traffic::store;

const HISTORIES: u32 = 60;
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_key_is_refused_or_let_through_until_the_instant_that_was_said() {
    let redis = Redis::start();
    let values = || (numbers(), overridden_history());
    redis.for_all(HISTORIES, values, |(numbers, (history, told))| {
        every_algorithm(&numbers).iter().try_for_each(|subject| {
            let clock = ManualClock::at(instant(history.start));
            let store = redis.store(clock.clone());
            let limiter = subject.bucket.limiter_over(store, redis.new_key());
            decides_as_was_said(subject, (&history, &told), &mut |call, now| {
                clock.set(instant(now));
                let answer = redis.wait(limiter.ask(call));
                let answer = answer.map(|told| told.map(|told| told.decision));
                answer.map_err(|error| {
                    TestCaseError::fail(format!("{} {now} {call:?}: {error:?}", subject.name))
                })
            })
        })
    });
}

#[tokio::test]
async fn a_key_can_be_refused_for_ever() {
    let server = Server::start().await;
    let limiter = RateLimiter::new(
        FixedWindow::new(Quota::per_hour(1)),
        store(server.client().await),
    );
    let for_ever = Timestamp::from_micros(u64::MAX);
    limiter.refuse_until("bob", for_ever).await.unwrap();
    for _ in 0..2 {
        assert!(!limiter.check("bob").await.unwrap().is_admitted());
    }
    limiter.let_through_until("bob", for_ever).await.unwrap();
    for _ in 0..2 {
        assert!(limiter.check("bob").await.unwrap().is_admitted());
    }
}

#[tokio::test]
async fn redis_forgets_by_its_own_clock_what_was_said() {
    let server = Server::start().await;
    let limiter = RateLimiter::new(
        SlidingLog::new(Quota::per_hour(1)),
        store(server.client().await),
    );
    limiter.check("bob").await.unwrap();
    let until = SystemClock::new()
        .now()
        .saturating_add(Duration::from_millis(300));
    limiter.refuse_until("bob", until).await.unwrap();
    let keys: Vec<String> = server.command("KEYS", &["*"]).await;
    assert_eq!(keys.len(), 1, "the list is gone: {keys:?}");
    let refused = limiter.check("bob").await.unwrap();
    let wait = refused.retry_after().unwrap();
    assert!(wait <= Duration::from_millis(300), "{wait:?}");
    sleep(wait).await;
    assert!(limiter.check("bob").await.unwrap().is_admitted());
    assert!(!limiter.check("bob").await.unwrap().is_admitted());
}

/// They share calls, to each of which Redis replies once. While it hangs nothing is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_is_refused_or_let_through_as_one_and_a_server_that_hangs_is_an_error() {
    let server = Server::start().await;
    let store = store(server.client().await);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(1)), store.clone());
    let later = SystemClock::new().now().saturating_add(HOUR);
    let admitted = async || {
        let told = crowd(300, &limiter, |limiter, _| async move {
            limiter.check("bob").await.unwrap().is_admitted()
        });
        told.await.into_iter().filter(|it| *it).count()
    };
    assert_eq!(admitted().await, 1);
    limiter.let_through_until("bob", later).await.unwrap();
    assert_eq!(admitted().await, 300);
    assert!(store.usage().joined > 0, "{:?}", store.usage());
    server.stop_process();
    let error = limiter.refuse_until("bob", later).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    server.continue_process();
    until("an answer", async || limiter.reset("bob").await.ok()).await;
    limiter.refuse_until("bob", later).await.unwrap();
    assert_eq!(admitted().await, 0);
}

/// A store in Redis or in memory.
async fn either<L>(in_redis: bool, local: L, server: &Server) -> EitherStore<L, RedisStore> {
    match in_redis {
        true => EitherStore::Right(store(server.client().await)),
        false => EitherStore::Left(local),
    }
}

/// One may be refused, and another one let through, at a time; both stores say the same.
#[tokio::test]
async fn of_several_limits_each_is_overridden_for_its_own_key() {
    let server = Server::start().await;
    let later = SystemClock::new().now().saturating_add(HOUR);
    for in_redis in [false, true] {
        let store = either(in_redis, LocalStore::new(), &server).await;
        let limits = EachOf((
            FixedWindow::new(Quota::per_day(3)).named("address"),
            SlidingLog::new(Quota::per_day(1)).named("user"),
        ));
        let limiter = RateLimiter::new(limits, store);
        let (address, user) = (Some("::1".to_owned()), Some("bob".to_owned()));
        let both = EachOf((address.clone(), user.clone()));
        let (address, user) = (EachOf((address, None)), EachOf((None, user)));
        let refused_by = async || {
            let decision = limiter.check(&both).await.unwrap();
            (!decision.is_admitted()).then(|| decision.policy().to_owned())
        };
        assert_eq!(refused_by().await, None);
        assert_eq!(refused_by().await.as_deref(), Some("user"));
        limiter.let_through_until(&user, later).await.unwrap();
        // The address is charged.
        for refused in [None, None, Some("address")] {
            assert_eq!(refused_by().await.as_deref(), refused, "{in_redis}");
        }
        limiter.refuse_until(&user, later).await.unwrap();
        limiter.let_through_until(&address, later).await.unwrap();
        assert_eq!(refused_by().await.as_deref(), Some("user"));
        limiter.let_through_until(&both, later).await.unwrap();
        assert_eq!(refused_by().await, None);
        limiter.reset(&both).await.unwrap();
        for refused in [None, Some("user")] {
            assert_eq!(refused_by().await.as_deref(), refused, "{in_redis}");
        }
    }
}

#[tokio::test]
async fn a_limit_in_shadow_that_refuses_lets_no_enforced_limit_go_uncharged() {
    let server = Server::start().await;
    let later = SystemClock::new().now().saturating_add(HOUR);
    for in_redis in [false, true] {
        let store = either(in_redis, LocalStore::new(), &server).await;
        let limits = EachOf((
            FixedWindow::new(Quota::per_day(2)).named("enforced"),
            SlidingLog::new(Quota::per_day(9))
                .named("rehearsed")
                .shadow(),
        ));
        let limiter = RateLimiter::new(limits, store);
        let rehearsed = EachOf((None, Some("bob".to_owned())));
        limiter.refuse_until(&rehearsed, later).await.unwrap();
        let both = EachOf((Some(7_u32), Some("bob".to_owned())));
        for remaining in [1, 0] {
            let admitted = limiter.check(&both).await.unwrap();
            let told = (admitted.is_admitted(), admitted.remaining());
            assert_eq!(told, (true, remaining), "{in_redis}");
        }
        assert!(!limiter.check(&both).await.unwrap().is_admitted());
    }
}

#[tokio::test]
async fn a_request_in_flight_that_was_let_through_has_no_place_to_give_back() {
    let server = Server::start().await;
    let later = SystemClock::new().now().saturating_add(HOUR);
    for in_redis in [false, true] {
        let store = either(in_redis, LocalStore::new(), &server).await;
        let limiter = RateLimiter::new(InFlight::new(1), store);
        let hold = async || limiter.hold("bob", 1).await.unwrap();
        limiter.let_through_until("bob", later).await.unwrap();
        let let_through = [hold().await.unwrap(), hold().await.unwrap()];
        limiter.refuse_until("bob", later).await.unwrap();
        let wait = hold().await.unwrap_err().retry_after().unwrap();
        assert!(wait > HOUR / 2, "{wait:?}");
        limiter.reset("bob").await.unwrap();
        let held = hold().await.unwrap();
        drop(let_through);
        assert!(hold().await.is_err(), "{in_redis}");
        held.settle(1).await.unwrap();
        hold().await.unwrap();
    }
}
