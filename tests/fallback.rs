//! A limiter that decides while the store is down: it says so, and was charged what the store had
//! admitted.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Request, Response};
use tollgate::{
    Decision, Hold, Limit, NoExemption, Options, Quota, RateLimitLayer, RateLimiter, StoreError,
    StoreErrorKind,
    algorithm::{FixedWindow, Gcra, SlidingLog, TokenBucket},
    choice::by_request,
    key::{Global, Header, Key},
    observe::{Event, Outcome},
    response::{AsError, RateLimited, StoreFailed},
    store::{Answer, AsKey, Ask, Change, Decided, LocalStore, Store, Written},
};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::support::{Echo, by_hand};

/// A store that answers, or fails with this error.
#[derive(Clone)]
struct Flapping<S> {
    store: S,
    failure: Arc<Mutex<Option<StoreErrorKind>>>,
    answers_later: bool,
}

impl<S> Flapping<S> {
    fn over(store: S) -> Self {
        Self {
            store,
            failure: Arc::default(),
            answers_later: false,
        }
    }

    fn later(self) -> Self {
        Self {
            answers_later: true,
            ..self
        }
    }

    fn fails(&self, failure: impl Into<Option<StoreErrorKind>>) {
        *self.failure.lock().unwrap() = failure.into();
    }

    fn answer<T>(
        &self,
        answer: impl FnOnce(&S) -> Result<T, StoreError>,
    ) -> Answer<Result<T, StoreError>, Ready<Result<T, StoreError>>> {
        let answer = match *self.failure.lock().unwrap() {
            Some(kind) => Err(StoreError::new(kind, "down on purpose")),
            None => answer(&self.store),
        };
        match self.answers_later {
            true => Answer::Later(ready(answer)),
            false => Answer::Now(answer),
        }
    }
}

fn at_once<T, F>(answer: Answer<T, F>) -> T {
    match answer {
        Answer::Now(answer) => answer,
        Answer::Later(_) => unreachable!("a store in memory"),
    }
}

impl<L: Limit, K: Key, S: Store<L, K>> Store<L, K> for Flapping<S> {
    type Deciding = Ready<Decided<L>>;
    type Writing = Ready<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &L,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<L>, Self::Deciding> {
        self.answer(|store| at_once(store.decide(limit, key, ask)))
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &L,
        key: &Q,
        change: Change<'_, L::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        self.answer(|store| at_once(store.change(limit, key, change)))
    }
}

const DOWN: StoreErrorKind = StoreErrorKind::Unavailable;

fn full(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units)).named("full")
}

fn small(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units)).named("small")
}

type Numbers<S, E> =
    RateLimitLayer<FixedWindow, Flapping<S>, Global, Options<u32, AsError, NoExemption, E>>;

fn numbers<S, E>(units: u64, store: &Flapping<S>, on_store_error: E) -> Numbers<S, E>
where
    Flapping<S>: Clone,
{
    RateLimitLayer::new(full(units), store.clone(), Global)
        .respond_with(AsError)
        .on_store_error(on_store_error)
}

fn refused(answer: Result<u32, BoxError>) -> Decision {
    let refusal = answer.unwrap_err().downcast::<RateLimited>().unwrap();
    refusal.decision().clone()
}

#[tokio::test]
async fn while_the_store_is_down_the_smaller_limit_decides_and_says_so() {
    for store in [
        Flapping::over(by_hand().1),
        Flapping::over(by_hand().1).later(),
    ] {
        let fallback = RateLimiter::new(small(2), by_hand().1);
        let echo = Echo::default();
        let service = numbers(5, &store, fallback).layer(echo.clone());
        store.fails(DOWN);
        for number in [1, 2] {
            assert_eq!(service.clone().oneshot(number).await.unwrap(), number);
        }
        let decision = refused(service.clone().oneshot(3).await);
        assert!(decision.is_degraded());
        assert_eq!((decision.policy(), decision.limit()), ("small", 2));
        assert_eq!(echo.calls(), 2);

        // The store is back: the full limit has lost nothing, and is in the responses as before.
        store.fails(None);
        for number in 0..5 {
            assert_eq!(service.clone().oneshot(number).await.unwrap(), number);
        }
        let decision = refused(service.clone().oneshot(3).await);
        assert!(!decision.is_degraded());
        assert_eq!((decision.policy(), decision.limit()), ("full", 5));
    }
}

#[tokio::test]
async fn what_the_store_admits_is_charged_to_the_smaller_limit_too() {
    for store in [
        Flapping::over(by_hand().1),
        Flapping::over(by_hand().1).later(),
    ] {
        let fallback = RateLimiter::new(small(3), by_hand().1);
        let service = numbers(4, &store, fallback.clone()).layer(Echo::default());
        let left = || fallback.peek(&()).now().remaining();
        for expected in [2, 1, 0, 0] {
            service.clone().oneshot(1).await.unwrap();
            assert_eq!(left(), expected);
        }
        // Requests that the store refuses are not charged.
        fallback.reset(&()).now();
        refused(service.clone().oneshot(1).await);
        assert_eq!(left(), 3);
    }
}

/// Each limit uses the clock of its own store.
#[tokio::test]
async fn clocks_that_differ_by_minutes_grant_nothing_and_lock_nobody_out() {
    const MINUTE: Duration = Duration::from_secs(60);
    for (ahead, behind) in [(20 * MINUTE, Duration::ZERO), (Duration::ZERO, 20 * MINUTE)] {
        let [(of_store, remote), (of_process, local)] = [by_hand(), by_hand()];
        of_store.advance(ahead);
        of_process.advance(behind);
        let hourly = |units| SlidingLog::new(Quota::per_hour(units));
        let store = Flapping::over(remote);
        let service = RateLimitLayer::new(hourly(10), store.clone(), Global)
            .respond_with(AsError)
            .on_store_error(RateLimiter::new(hourly(5), local))
            .layer(Echo::default());
        let admitted = async |requests: u32| {
            let mut admitted = 0;
            for number in 0..requests {
                admitted += u32::from(service.clone().oneshot(number).await.is_ok());
            }
            admitted
        };
        let wait = async || refused(service.clone().oneshot(1).await).retry_after();
        assert_eq!(admitted(3).await, 3);
        // The smaller limit is charged for requests that both admit.
        for left in [2, 0, 0] {
            store.fails(DOWN);
            assert_eq!(admitted(2).await, left);
            store.fails(None);
            assert_eq!(admitted(1).await, 1);
        }
        store.fails(DOWN);
        assert_eq!(wait().await, Some(60 * MINUTE));
        store.fails(None);
        assert_eq!(admitted(9).await, 4);
        assert_eq!(wait().await, Some(60 * MINUTE));
        // Both clocks advance equally.
        for clock in [&of_store, &of_process] {
            clock.advance(59 * MINUTE);
        }
        for failure in [None, Some(DOWN)] {
            store.fails(failure);
            assert_eq!(wait().await, Some(MINUTE));
        }
        for clock in [&of_store, &of_process] {
            clock.advance(MINUTE);
        }
        store.fails(DOWN);
        assert_eq!(admitted(9).await, 5);
        store.fails(None);
        assert_eq!(admitted(15).await, 10);
    }
}

#[tokio::test]
async fn a_cost_that_does_not_fit_the_smaller_limit_empties_it() {
    let store = Flapping::over(by_hand().1);
    let fallback = RateLimiter::new(small(3), by_hand().1);
    let service = numbers(100, &store, fallback.clone())
        .cost(2)
        .layer(Echo::default());
    for left in [1, 0, 0] {
        service.clone().oneshot(1).await.unwrap();
        assert_eq!(fallback.peek(&()).now().remaining(), left);
    }
}

#[tokio::test]
async fn a_wrong_set_up_and_a_strangers_value_never_fall_back() {
    let store = Flapping::over(by_hand().1);
    let fallback = RateLimiter::new(small(2), by_hand().1);
    let service = numbers(5, &store, fallback.clone()).layer(Echo::default());
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::InvalidInput] {
        store.fails(kind);
        let error = service.clone().oneshot(1).await.unwrap_err();
        assert!(error.is::<StoreFailed>(), "{kind:?}");
    }
    assert_eq!(fallback.peek(&()).now().remaining(), 2);
}

fn a_request() -> Request<()> {
    Request::get("/").header("x-user", "bob").body(()).unwrap()
}

#[tokio::test]
async fn handlers_and_callers_are_told_what_the_smaller_limit_says_and_no_more() {
    let store = Flapping::over(LocalStore::new());
    let fallback = RateLimiter::new(small(2), LocalStore::new());
    let limit = RateLimitLayer::new(full(5), store.clone(), Header::new("x-user"))
        .expose_decision()
        .on_store_error(fallback);
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let service = limit.layer(service_fn(move |request: Request<()>| {
        let decision = request.extensions().get::<Decision>().unwrap();
        let told = (decision.is_degraded(), decision.policy().to_owned());
        seen.lock().unwrap().push(told);
        ready(Ok::<_, Infallible>(Response::new(String::new())))
    }));
    for (failure, status, fields) in [
        (None, 200, ["\"full\";q=5;w=86400", "\"full\";r=4"]),
        (Some(DOWN), 200, ["\"small\";q=2;w=86400", "\"small\";r=0"]),
        (Some(DOWN), 429, ["\"small\";q=2;w=86400", "\"small\";r=0"]),
        (None, 200, ["\"full\";q=5;w=86400", "\"full\";r=3"]),
    ] {
        store.fails(failure);
        let response = service.clone().oneshot(a_request()).await.unwrap();
        assert_eq!(response.status(), status);
        let field = |name| response.headers()[name].to_str().unwrap();
        assert_eq!(field("ratelimit-policy"), fields[0]);
        assert!(field("ratelimit").starts_with(fields[1]));
        assert_eq!(response.headers().get_all("ratelimit").iter().count(), 1);
    }
    let told = told.lock().unwrap();
    let full = (false, "full".to_owned());
    assert_eq!(*told, [full.clone(), (true, "small".to_owned()), full]);
}

#[tokio::test]
async fn the_smaller_limit_has_plans_tuples_and_keys_of_its_own() {
    let store = Flapping::over(LocalStore::new());
    let by_plan = by_request(|request: &Request<()>| {
        let is_paid = request.headers().contains_key("x-paid");
        let day = small(if is_paid { 2 } else { 1 });
        (day, Gcra::new(Quota::per_second(1)).burst(5))
    });
    let limit = RateLimitLayer::new(full(5), store.clone(), Header::new("x-user"))
        .on_store_error(RateLimiter::new(by_plan, LocalStore::new()));
    let service = limit.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    store.fails(DOWN);
    let paid = |user: &str| {
        let request = Request::get("/")
            .header("x-user", user)
            .header("x-paid", "yes");
        request.body(()).unwrap()
    };
    let status = async |request| service.clone().oneshot(request).await.unwrap().status();
    for (request, expected) in [
        (a_request(), 200),
        (a_request(), 429),
        (paid("ann"), 200),
        (paid("ann"), 200),
        (paid("ann"), 429),
    ] {
        assert_eq!(status(request).await, expected);
    }
}

#[tokio::test]
async fn a_request_that_the_smaller_limit_delays_waits_for_its_turn() {
    let store = Flapping::over(LocalStore::new());
    let queue = Gcra::new(Quota::per_second(20)).burst(1);
    let queue = queue.wait_at_most(Duration::from_secs(5));
    let fallback = RateLimiter::new(queue, LocalStore::new());
    let limit = numbers(5, &store, fallback).max_waiting(1);
    let service = limit.layer(Echo::default());
    store.fails(DOWN);
    let start = Instant::now();
    service.clone().oneshot(1).await.unwrap();
    let (waits, one_too_many) =
        tokio::join!(service.clone().oneshot(2), service.clone().oneshot(3),);
    assert_eq!(waits.unwrap(), 2);
    assert!(start.elapsed() >= Duration::from_millis(49));
    assert!(refused(one_too_many).is_degraded());
}

/// The smaller limit charges at once what the full limit would hold.
#[tokio::test]
async fn a_settled_limit_falls_back_to_one_that_is_charged_whole() {
    let store = Flapping::over(LocalStore::new());
    let fallback = RateLimiter::new(small(4), LocalStore::new());
    let bucket = TokenBucket::new(Quota::per_day(10)).settled();
    let limit = RateLimitLayer::new(bucket, store.clone(), Header::new("x-user"))
        .cost(2)
        .on_store_error(fallback.clone());
    let holds = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&holds);
    let service = limit.layer(service_fn(move |request: Request<()>| {
        let hold = request.extensions().get::<Hold>();
        seen.fetch_add(usize::from(hold.is_some()), Ordering::SeqCst);
        if let Some(hold) = hold {
            drop(hold.settle(0));
        }
        ready(Ok::<_, Infallible>(Response::new(String::new())))
    }));
    service.clone().oneshot(a_request()).await.unwrap();
    assert_eq!(holds.load(Ordering::SeqCst), 1);
    store.fails(DOWN);
    for expected in [200, 429] {
        let response = service.clone().oneshot(a_request()).await.unwrap();
        assert_eq!(response.status(), expected);
    }
    assert_eq!(holds.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_observer_is_told_that_the_smaller_limit_has_decided_and_whether_the_request_passes() {
    for is_enforced in [true, false] {
        let (_, local) = by_hand();
        let store = Flapping::over(local);
        let seen: Arc<Mutex<Vec<(Outcome, bool, bool)>>> = Arc::default();
        let told = Arc::clone(&seen);
        let smaller = RateLimiter::new(small(2), LocalStore::new());
        let service = RateLimitLayer::new(full(2), store.clone(), Global)
            .respond_with(AsError)
            .on_store_error(smaller)
            .enforce(is_enforced)
            .observe(move |event: &Event<'_, ()>| {
                let is_degraded = event.decision().is_some_and(|said| said.is_degraded());
                let event = (event.outcome(), event.passes(), is_degraded);
                told.lock().unwrap().push(event);
            })
            .layer(Echo::default());
        let mut passed = Vec::new();
        for failure in [
            None,
            Some(StoreErrorKind::Unavailable),
            Some(StoreErrorKind::Misconfigured),
        ] {
            store.fails(failure);
            for number in 0..2 {
                passed.push(service.clone().oneshot(number).await.is_ok());
            }
        }
        store.fails(None);
        passed.push(service.clone().oneshot(7).await.is_ok());
        passed.push(service.clone().oneshot(7).await.is_ok());
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let told: Vec<bool> = seen.iter().map(|(_, passes, _)| *passes).collect();
        assert_eq!(told, passed, "enforced: {is_enforced}");
        // The two that the store admits empty the smaller limit, too.
        let passes = !is_enforced;
        let over = match is_enforced {
            true => Outcome::Refused,
            false => Outcome::ShadowRefused,
        };
        let (degraded, failed) = (
            (Outcome::Degraded, passes, true),
            (Outcome::StoreError, passes, false),
        );
        let expected = [
            (Outcome::Admitted, true, false),
            (Outcome::Admitted, true, false),
            degraded,
            degraded,
            failed,
            failed,
            (over, passes, false),
            (over, passes, false),
        ];
        assert_eq!(seen, expected, "enforced: {is_enforced}");
    }
}
