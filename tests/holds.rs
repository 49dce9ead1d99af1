//! Holds on units while a request runs: who settles them, when, and in which bucket.

use std::{
    convert::Infallible,
    future::{pending, ready as ready_future},
    pin::Pin,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
    response::Response,
    routing::post,
};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use tollgate::{
    EachOf, End, Hold, Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::{
        Algorithm, FixedWindow, MinInterval, Settled, SlidingLog, SlidingWindow, TokenBucket,
    },
    choice::Reloadable,
    clock::ManualClock,
    key::{Global, Key, MissingKey, TupleRejection},
    response::Grpc,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::polled::polled;
use crate::ready::ready;

const START: Timestamp = Timestamp::from_micros(1_700_000_040_000_000);
const MINUTE: Duration = Duration::from_secs(60);

type Store<A, K> = LocalStore<A, K, ManualClock>;
type Limiter<A, K> = RateLimiter<A, Store<A, K>>;

fn store<A: Algorithm, K>(max_keys: usize) -> (Store<A, K>, ManualClock) {
    let clock = ManualClock::at(START);
    let builder = LocalStore::builder().clock(clock.clone());
    (builder.max_keys(max_keys).build(), clock)
}

/// Ten units an hour, held until they are settled.
fn ten() -> Settled<SlidingLog> {
    SlidingLog::new(Quota::per_hour(10)).settled()
}

fn held<A: Algorithm, K: Key>(limiter: &Limiter<A, K>, key: &K, cost: u32) -> Option<Hold> {
    ready(limiter.hold(key, cost)).unwrap().ok()
}

fn remaining<A: Algorithm, K: Key>(limiter: &Limiter<A, K>, key: &K) -> u64 {
    ready(limiter.peek(key)).unwrap().remaining()
}

fn app(limit: Limited, handler: axum::routing::MethodRouter) -> Router {
    Router::new().route("/", handler).layer(limit)
}

type Limited = RateLimitLayer<Settled<SlidingLog>, LocalStore<Settled<SlidingLog>, ()>, Global>;

async fn answered(app: &Router) -> (StatusCode, String) {
    let response = app
        .clone()
        .oneshot(Request::post("/").body(Body::empty()).unwrap());
    let response = response.await.unwrap();
    let field = response.headers()["ratelimit"].to_str().unwrap().to_owned();
    (response.status(), field)
}

#[tokio::test]
async fn a_handler_settles_the_hold_in_its_request() {
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global).cost(4);
    let app = Router::new()
        .route(
            "/",
            post(async |Extension(hold): Extension<Hold>| drop(hold.settle(1))),
        )
        .layer(limit);
    for left in [6, 5, 4, 3, 2, 1, 0] {
        let (status, field) = answered(&app).await;
        assert_eq!(
            (status, field),
            (
                StatusCode::OK,
                format!("\"sliding-log-10-1h\";r={left};t=3600")
            )
        );
    }
    assert_eq!(answered(&app).await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_handler_that_does_not_look_at_its_hold_is_charged_all_of_it() {
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global);
    let app = app(limit, post(async || ()));
    for _ in 0..10 {
        assert_eq!(answered(&app).await.0, StatusCode::OK);
    }
    assert_eq!(answered(&app).await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_fields_tell_what_is_left_after_the_settlement() {
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global)
        .cost(5)
        .settle(|response: &Response| u32::from(response.status() == StatusCode::OK));
    let app = Router::new().route("/", post(async || ())).layer(limit);
    for left in (4..=9).rev() {
        let (status, field) = answered(&app).await;
        assert_eq!(status, StatusCode::OK);
        assert!(field.contains(&format!(";r={left};")), "{field}");
    }
    assert_eq!(answered(&app).await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn more_than_was_held_is_owed() {
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global).settle(|_: &Response| 25);
    let app = Router::new().route("/", post(async || ())).layer(limit);
    assert_eq!(answered(&app).await.0, StatusCode::OK);
    let (status, field) = answered(&app).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(field.contains(";r=0;"), "{field}");
}

#[tokio::test]
async fn hanging_up_is_not_free() {
    let pending = service_fn(async |_: Request<Body>| {
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global)
        .cost(6)
        .settle(|_: &Response| 0);
    let mut service = limit.layer(pending);
    let mut call = Box::pin(service.call(Request::new(Body::empty())));
    assert!(polled(call.as_mut()).is_pending());
    drop(call);
    let response = service.call(Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_service_that_fails_keeps_its_hold() {
    let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("broken"));
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global)
        .cost(6)
        .settle(|_: &Response| 0);
    let mut service = limit.layer(failing);
    assert_eq!(
        service.call(Request::new(Body::empty())).await.unwrap_err(),
        "broken"
    );
    let response = service.call(Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_end_knows_that_the_service_failed_and_what_it_says_is_charged() {
    for (charged_if_failed, left) in [(0, 10), (2, 8), (6, 4), (9, 1)] {
        let failing = service_fn(async |_: Request<Body>| Err::<Response, _>("broken"));
        let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global)
            .cost(6)
            .settle_at_end(move |end: &End<'_>| {
                assert!(end.service_failed() && !end.is_complete());
                assert_eq!((end.status().as_u16(), end.bytes()), (500, 0));
                assert!(end.headers().is_empty() && end.trailers().is_none());
                assert_eq!(end.held(), 6);
                charged_if_failed
            });
        let limiter = limit.limiter().clone();
        let failed = limit.layer(failing).call(Request::new(Body::empty())).await;
        assert_eq!(failed.unwrap_err(), "broken");
        assert_eq!(limiter.peek(&()).now().remaining(), left);
    }
}

#[tokio::test]
async fn a_service_that_is_dropped_or_panics_keeps_its_hold_and_nobody_is_told() {
    let told = |_: &End<'_>| -> u32 { panic!("there is no end") };
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global)
        .cost(3)
        .settle_at_end(told);
    let limiter = limit.limiter().clone();
    let panics = service_fn(
        async |request: Request<Body>| -> Result<Response, Infallible> {
            match request.uri().path() {
                "/panics" => panic!("broken"),
                _ => std::future::pending().await,
            }
        },
    );
    let mut service = limit.layer(panics);
    let mut dropped = Box::pin(service.call(Request::new(Body::empty())));
    assert!(polled(dropped.as_mut()).is_pending());
    drop(dropped);
    assert_eq!(limiter.peek(&()).now().remaining(), 7);

    let request = Request::get("/panics").body(Body::empty()).unwrap();
    let panicked = tokio::spawn(service.call(request)).await.unwrap_err();
    assert!(panicked.is_panic());
    assert_eq!(limiter.peek(&()).now().remaining(), 4);
}

#[test]
fn of_several_clones_one_settles() {
    let (store, _) = store(1_000);
    let limiter = RateLimiter::new(ten(), store);
    for turn in 0..200 {
        // A second settlement would free this one.
        let _other = held(&limiter, &turn, 2).unwrap();
        let hold = held(&limiter, &turn, 8).unwrap();
        let at_once = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let clone = hold.clone();
                    at_once.wait();
                    drop(clone.settle(3));
                });
            }
        });
        drop(hold);
        assert_eq!(remaining(&limiter, &turn), 10 - 2 - 3);
    }
}

#[test]
fn what_is_never_settled_counts_as_spent_after_one_to_two_of_its_longest_times() {
    let (store, clock) = store(10);
    let bucket = TokenBucket::new(Quota::per_minute(60))
        .settled()
        .held_at_most(MINUTE);
    let limiter = RateLimiter::new(bucket, store.clone());
    let leaked = held(&limiter, &1, 30).unwrap();
    for _ in 0..3 {
        clock.advance(MINUTE / 2);
        assert_eq!(
            remaining(&limiter, &1),
            30,
            "it is not paid off while it is held"
        );
    }
    // It was spent at its end and paid off from then on, though nobody looked at that instant.
    clock.advance(MINUTE / 2 + MINUTE / 4);
    assert_eq!(remaining(&limiter, &1), 45);
    drop(leaked.settle(0));
    assert_eq!(
        remaining(&limiter, &1),
        45,
        "it is too late to free anything"
    );
}

#[test]
fn what_is_checked_by_hand_is_charged_at_once_as_nobody_can_settle_it() {
    let (store, clock) = store(10);
    let bucket = TokenBucket::new(Quota::per_minute(60)).settled();
    let limiter = RateLimiter::new(bucket, store);
    let charges: [&dyn Fn(); 3] = [
        &|| assert!(ready(limiter.check_cost(&1, 30)).unwrap().is_admitted()),
        &|| assert!(limiter.check_cost(&1, 30).now().is_admitted()),
        &|| assert!(ready(limiter.until_ready(&1, 30)).unwrap().is_admitted()),
    ];
    for charge in charges {
        charge();
        assert_eq!(remaining(&limiter, &1), 30);
        clock.advance(MINUTE / 4);
        assert_eq!(remaining(&limiter, &1), 45, "it is paid off");
        clock.advance(MINUTE / 4);
    }
}

#[test]
fn a_hold_of_before_a_reset_frees_nothing_of_those_after_it() {
    let (store, clock) = store(10);
    let limiter = RateLimiter::new(ten(), store);
    let before = held(&limiter, &1, 10).unwrap();
    ready(limiter.reset(&1)).unwrap();
    clock.advance(Duration::from_micros(1));
    let after = held(&limiter, &1, 7).unwrap();
    drop(before.settle(0));
    assert_eq!(remaining(&limiter, &1), 3);
    drop(after.settle(0));
    assert_eq!(remaining(&limiter, &1), 10);
}

#[test]
fn keys_whose_holds_have_ended_leave() {
    let (store, clock) = store(100);
    let bucket = TokenBucket::new(Quota::per_second(100))
        .settled()
        .held_at_most(MINUTE);
    let limiter = RateLimiter::new(bucket, store.clone());
    let leaked: Vec<_> = (0..100)
        .map(|key| held(&limiter, &key, 3).unwrap())
        .collect();
    assert_eq!(store.usage().keys, 100);
    clock.advance(MINUTE * 3);
    for key in 100..200 {
        assert!(held(&limiter, &key, 1).is_some_and(|hold| ready(hold.settle(0)).is_ok()));
    }
    assert_eq!(
        store.usage().overflow_decisions,
        0,
        "all of them have left when they were asked"
    );
    drop(leaked);
}

#[test]
fn holds_in_the_shared_bucket_are_freed_there_and_each_its_own() {
    let (store, _) = store(1);
    let limiter = RateLimiter::new(ten(), store.clone());
    let known = held(&limiter, &0, 1).unwrap();
    let [first, second] = [1, 2].map(|key| held(&limiter, &key, 4).unwrap());
    assert_eq!(store.usage().overflow_decisions, 2);
    assert_eq!(remaining(&limiter, &3), 2);
    drop(first.settle(0));
    assert_eq!(remaining(&limiter, &3), 6);
    drop(second.settle(0));
    assert_eq!(remaining(&limiter, &3), 10);
    drop(known.settle(0));
    assert_eq!(remaining(&limiter, &0), 10);
}

#[test]
fn a_debt_in_the_shared_bucket_stops_at_its_capacity() {
    let (store, clock) = store(1);
    let bucket = TokenBucket::new(Quota::per_minute(60)).settled();
    let limiter = RateLimiter::new(bucket, store.clone());
    let _known = held(&limiter, &0, 60).unwrap();
    let spendthrift = held(&limiter, &1, 10).unwrap();
    drop(spendthrift.settle(1_000_000));
    ready(limiter.debit(&2, 1_000_000)).unwrap();
    clock.advance(MINUTE);
    assert_eq!(
        remaining(&limiter, &3),
        60,
        "newcomers wait no longer than a full bucket takes"
    );
}

#[test]
fn what_is_spent_beyond_a_hold_in_the_shared_bucket_is_charged_there() {
    let (store, _) = store(1);
    let bucket = TokenBucket::new(Quota::per_hour(60)).settled();
    let limiter = RateLimiter::new(bucket, store.clone());
    let _known = held(&limiter, &0, 1).unwrap();
    let [more, less] = [1, 2].map(|key| held(&limiter, &key, 10).unwrap());
    drop(more.settle(13));
    drop(less.settle(4));
    ready(limiter.debit(&4, 5)).unwrap();
    assert_eq!(remaining(&limiter, &3), 60 - 13 - 4 - 5);
    assert_eq!(store.usage().keys, 1);
}

#[test]
fn a_hold_that_is_gone_charges_nobody_when_no_more_than_it_was_spent() {
    let (store, _) = store(10);
    let limiter = RateLimiter::new(ten(), store.clone());
    for spent in [0, 3, 4] {
        let gone = held(&limiter, &1, 4).unwrap();
        ready(limiter.reset(&1)).unwrap();
        drop(gone.settle(spent));
        assert_eq!(store.usage().keys, 0, "{spent} of 4");
    }
    let gone = held(&limiter, &1, 4).unwrap();
    ready(limiter.reset(&1)).unwrap();
    drop(gone.settle(5));
    let usage = store.usage();
    assert_eq!((usage.keys, usage.overflow_decisions), (1, 0));
    assert_eq!(remaining(&limiter, &1), 9);
}

#[test]
fn a_late_settlement_in_the_shared_bucket_charges_it_what_was_spent_beyond_the_hold() {
    let (store, clock) = store(1);
    let limiter = RateLimiter::new(ten(), store.clone());
    let _known = held(&limiter, &0, 1).unwrap();
    let late = held(&limiter, &1, 4).unwrap();
    clock.advance(MINUTE * 3);
    drop(late.settle(6));
    assert_eq!(remaining(&limiter, &3), 10 - 6);
    assert_eq!(store.usage().keys, 1);
}

#[test]
fn a_bucket_owes_up_to_2_53_parts_of_a_unit_and_one_that_is_settled_as_much_again_as_fits() {
    fn wait_after<A: Algorithm>(rule: A, units: u32) -> Duration {
        let limiter = RateLimiter::new(rule, store(10).0);
        ready(limiter.debit(&1, units)).unwrap();
        let refused = ready(limiter.check(&1)).unwrap();
        refused.retry_after().unwrap()
    }
    let day = 86_400_000_000_u64;
    let exact = |parts: u64, paid: u64| Duration::from_micros(parts.div_ceil(paid));
    let prime = TokenBucket::new(Quota::per_day(100_003));
    // A day and the quota have no common divisor: a unit has a part for each microsecond.
    let below = wait_after(prime.clone(), 104_249);
    assert_eq!(below, exact((104_249 + 1 - 100_003) * day, 100_003));
    let owed = (1 << 53) - 1;
    for beyond in [104_250, 200_006, u32::MAX] {
        let wait = wait_after(prime.clone(), beyond);
        assert_eq!(wait, exact(owed - 100_002 * day, 100_003), "{beyond}");
    }
    // In ticks of 10 µs.
    let settled = wait_after(prime.settled(), 200_006);
    let ticks = ((200_006 + 1 - 100_003) * day).div_ceil(10 * 100_003);
    assert_eq!(settled, Duration::from_micros(10 * ticks));
    let even = wait_after(TokenBucket::new(Quota::per_day(100_000)), u32::MAX);
    let units = u64::from(u32::MAX) + 1 - 100_000;
    assert_eq!(even, exact(units * (day / 100_000), 1));
}

#[test]
fn as_much_as_fits_is_owed_beyond_it_to_the_last_unit_however_much_that_is() {
    let day = 86_400_000_000_u64;
    // In parts of a unit these are more than half of what is counted exactly.
    for units in [60_007, 80_021, 100_003, 104_243_u32] {
        let (store, clock) = store(10);
        let rule = TokenBucket::new(Quota::per_day(units.into())).named("large");
        let limiter = RateLimiter::new(rule.settled(), store);
        let hold = held(&limiter, &1, units).unwrap();
        ready(hold.settle(2 * units)).unwrap();
        let owed = u64::from(units) + 1;
        let exact = Duration::from_micros((owed * day).div_ceil(units.into()));
        let told = ready(limiter.peek(&1)).unwrap();
        let wait = told.retry_after().unwrap();
        assert!(told.policies()[0].policy() == "large");
        assert!(
            wait >= exact && wait < exact + Duration::from_micros(20),
            "{wait:?} {exact:?}"
        );
        clock.advance(wait - Duration::from_micros(20));
        assert!(held(&limiter, &1, 1).is_none());
        clock.advance(Duration::from_micros(20));
        assert!(held(&limiter, &1, 1).is_some());
    }
}

#[test]
fn a_crowd_at_one_key_is_charged_what_it_spends_while_its_plan_changes_and_all_hold() {
    // How much of the plan of 40 a unit of a plan of so many is.
    fn is_charged<A: Algorithm>(of: impl Fn(u64) -> A + Sync, part_of_40: fn(u64) -> u64) {
        let (store, _) = store(10);
        let plan = Reloadable::new(of(40));
        let limiter = RateLimiter::new(plan.clone(), store);
        let spent = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..8 {
                let (limiter, plan, spent, of) = (&limiter, &plan, &spent, &of);
                scope.spawn(move || {
                    for turn in 0..400 {
                        if turn % 8 == number {
                            let units = if turn % 3 == 0 { 5 } else { 40 };
                            plan.replace(of(units)).unwrap();
                        }
                        let Ok(hold) = ready(limiter.hold(&7, 2)).unwrap() else {
                            continue;
                        };
                        let units = u32::from(turn % 40 == 5 * number);
                        let clone = hold.clone();
                        ready(clone.settle(units)).unwrap();
                        ready(hold.settle(2)).unwrap();
                        let part = part_of_40(hold.decision().limit());
                        spent.fetch_add(u64::from(units) * part, Ordering::Relaxed);
                    }
                });
            }
        });
        plan.replace(of(40)).unwrap();
        let left = ready(limiter.peek(&7)).unwrap().remaining();
        let spent = spent.into_inner();
        assert!(
            left == 40_u64.saturating_sub(spent) && spent > 5,
            "{left} left, {spent} spent"
        );
    }
    let quota = Quota::per_hour;
    is_charged(
        |units| SlidingLog::new(quota(units)).named("n").settled(),
        |_| 1,
    );
    is_charged(
        |units| FixedWindow::new(quota(units)).named("n").settled(),
        |_| 1,
    );
    is_charged(
        |units| SlidingWindow::new(quota(units)).named("n").settled(),
        |_| 1,
    );
    // A bucket keeps time, of which a unit of a slower plan takes more.
    is_charged(
        |units| TokenBucket::new(quota(units)).named("n").settled(),
        |limit| 40 / limit,
    );
}

#[test]
fn no_error_is_so_large_that_clippy_has_something_to_say_where_it_is_passed_on() {
    fn size<T, E>(_: impl FnOnce() -> Result<T, E>) -> usize {
        size_of::<E>()
    }
    let (store, _) = store(10);
    let limiter = RateLimiter::new(ten(), store);
    let hold = || ready(limiter.hold(&1, 11)).unwrap();
    assert!(hold().unwrap_err().never_fits());
    let sizes = [
        size(hold),
        size(|| ready(limiter.check(&1))),
        size(|| TokenBucket::new(Quota::per_day(1)).try_named("")),
        size_of::<MissingKey>(),
        size_of::<TupleRejection>(),
    ];
    assert!(sizes.iter().all(|size| *size <= 64), "{sizes:?}");
}

#[test]
fn beside_what_cannot_be_held_the_rest_is_held() {
    let (store, clock) = store(10);
    let limits = (MinInterval::new(Duration::from_secs(1)), ten());
    let limiter = RateLimiter::new(limits, store);
    let hold = held(&limiter, &1, 9).unwrap();
    clock.advance(Duration::from_secs(2));
    assert!(held(&limiter, &1, 9).is_none());
    drop(hold.settle(1));
    assert!(held(&limiter, &1, 9).is_some());
    assert!(
        held(&limiter, &1, 1).is_none(),
        "the interval was charged at once"
    );
}

#[test]
fn each_of_several_keys_settles_its_own() {
    let store = LocalStore::builder().clock(ManualClock::at(START)).build();
    let limits = EachOf((
        ten().clone(),
        TokenBucket::new(Quota::per_hour(20)).settled(),
    ));
    let limiter = RateLimiter::new(limits, store);
    let caller = |name: &str| EachOf((Some(name.to_owned()), Some(7_u64)));
    let hold = ready(limiter.hold(&caller("ann"), 10)).unwrap().unwrap();
    assert!(ready(limiter.hold(&caller("ann"), 1)).unwrap().is_err());
    let other = ready(limiter.hold(&caller("bob"), 10)).unwrap().unwrap();
    assert!(ready(limiter.hold(&caller("cid"), 1)).unwrap().is_err());
    drop(hold.settle(2));
    drop(other.settle(3));
    assert_eq!(ready(limiter.peek(&caller("ann"))).unwrap().remaining(), 8);
    assert_eq!(ready(limiter.peek(&caller("cid"))).unwrap().remaining(), 10);
    let EachOf((_, account)) = caller("cid");
    let alone = EachOf((None::<String>, account));
    assert_eq!(ready(limiter.peek(&alone)).unwrap().remaining(), 15);
}

/// A body of this many pieces of a KiB.
struct Pieces(usize);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        let piece = || Ok(http_body::Frame::data(Bytes::from(vec![0; 1_024])));
        Poll::Ready(left.map(|_| piece()))
    }
}

/// The charge for a body of `pieces` pieces whose caller takes `taken` of them and hangs up.
async fn charged_for(pieces: usize, taken: usize) -> u64 {
    let store = LocalStore::new();
    let limit = RateLimitLayer::new(ten(), store.clone(), Global)
        .cost(8)
        .settle_at_end(|end: &End<'_>| {
            assert_eq!(end.status(), StatusCode::OK);
            end.kib()
        });
    let inner = service_fn(move |_: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(Body::new(Pieces(pieces))))
    });
    let response = limit.layer(inner).oneshot(Request::new(Body::empty()));
    let mut body = response.await.unwrap().into_body();
    let limiter = RateLimiter::new(ten(), store);
    assert_eq!(
        ready(limiter.peek(&())).unwrap().remaining(),
        2,
        "held while it is sent"
    );
    for _ in 0..taken {
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    10 - ready(limiter.peek(&())).unwrap().remaining()
}

#[tokio::test]
async fn a_body_is_charged_what_was_sent_of_it() {
    assert_eq!(charged_for(5, 5).await, 5);
    assert_eq!(charged_for(5, 2).await, 2, "the caller hung up");
    assert_eq!(charged_for(0, 0).await, 0);
}

#[tokio::test]
async fn the_end_knows_trailers_and_whether_it_came() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let ends = Arc::clone(&seen);
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global).settle_at_end(
        move |end: &End<'_>| {
            let trailer = end.trailers().map(|trailers| trailers["x-status"].clone());
            ends.lock()
                .unwrap()
                .push((end.bytes(), trailer, end.is_complete()));
            0
        },
    );
    let inner = service_fn(async move |_: Request<Body>| {
        let trailers = HeaderMap::from_iter([("x-status".parse().unwrap(), "7".parse().unwrap())]);
        let body = Full::new(Bytes::from("hello")).with_trailers(ready_future(Some(Ok(trailers))));
        Ok::<_, Infallible>(Response::new(Body::new(body)))
    });
    let service = limit.layer(inner);
    let ask = || service.clone().oneshot(Request::new(Body::empty()));
    ask().await.unwrap().into_body().collect().await.unwrap();
    drop(ask().await.unwrap());
    let seen = seen.lock().unwrap();
    assert_eq!(
        *seen,
        [(5, Some("7".parse().unwrap()), true), (0, None, false)]
    );
}

#[tokio::test]
async fn the_end_knows_the_head_of_its_response_and_how_long_it_took() {
    const PAUSE: Duration = Duration::from_millis(5);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let ends = Arc::clone(&seen);
    let limit = RateLimitLayer::new(ten(), LocalStore::new(), Global).settle_at_end(
        move |end: &End<'_>| {
            let printed = format!("{end:?}");
            assert!(printed.starts_with("End {"), "{printed}");
            assert!(printed.contains("bytes: 5"), "{printed}");
            let field = end.headers()["x-field"].clone();
            (ends.lock().unwrap()).push((end.status(), field, end.duration()));
            0
        },
    );
    let inner = service_fn(async |_: Request<Body>| {
        tokio::time::sleep(PAUSE).await;
        let response = Response::builder().status(206).header("x-field", "7");
        Ok::<_, Infallible>(response.body(Body::from("hello")).unwrap())
    });
    let response = limit.layer(inner).oneshot(Request::new(Body::empty()));
    let body = response.await.unwrap().into_body();
    body.collect().await.unwrap();
    let seen = seen.lock().unwrap();
    let [(status, field, duration)] = &**seen else {
        panic!("{seen:?}");
    };
    assert_eq!((status.as_u16(), field.as_bytes()), (206, &b"7"[..]));
    assert!(*duration >= PAUSE, "{duration:?}");
}

#[tokio::test]
async fn a_request_that_costs_nothing_holds_nothing() {
    let store = LocalStore::new();
    let limit = RateLimitLayer::new(ten(), store.clone(), Global).cost(0_u32);
    let free = Router::new()
        .route(
            "/",
            post(async |hold: Option<Extension<Hold>>| assert!(hold.is_none())),
        )
        .layer(limit.clone());
    let settled = Router::new()
        .route("/", post(async || ()))
        .layer(limit.settle(|_: &Response| 25));
    for app in [free, settled] {
        assert_eq!(answered(&app).await.0, StatusCode::OK);
    }
    let limiter = RateLimiter::new(ten(), store);
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 10);
}

#[tokio::test]
async fn a_body_that_settles_says_of_itself_what_the_inner_one_says() {
    let limit =
        RateLimitLayer::new(ten(), LocalStore::new(), Global).settle_at_end(|_: &End<'_>| 1);
    let inner = service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
    });
    let response = limit.layer(inner).oneshot(Request::new(Body::empty()));
    let mut body = response.await.unwrap().into_body();
    assert!(!body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(5));
    let printed = format!("{body:?}");
    assert!(printed.starts_with("SettledBody {"), "{printed}");
    body.frame().await.unwrap().unwrap();
    assert!(body.is_end_stream());
}

/// Never ready.
#[derive(Clone)]
struct Busy;

impl Service<Request<Body>> for Busy {
    type Response = Response;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _request: Request<Body>) -> Self::Future {
        unreachable!("called without having been made ready")
    }
}

#[test]
fn a_service_that_settles_at_the_end_is_ready_when_the_inner_one_is() {
    let limit =
        RateLimitLayer::new(ten(), LocalStore::new(), Global).settle_at_end(|_: &End<'_>| 1);
    let mut service = limit.layer(Busy);
    let ready = service.poll_ready(&mut Context::from_waker(Waker::noop()));
    assert!(ready.is_pending());
}

#[tokio::test]
async fn a_grpc_call_carries_its_hold() {
    let store = LocalStore::new();
    let limit = RateLimitLayer::new(ten(), store.clone(), Global).cost(4);
    let inner = service_fn(async |request: Request<Body>| {
        let hold = request.extensions().get::<Hold>();
        drop(hold.expect("it is in the request").settle(1));
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let service = limit.respond_with(Grpc::new()).layer(inner);
    service.oneshot(Request::new(Body::empty())).await.unwrap();
    let limiter = RateLimiter::new(ten(), store);
    assert_eq!(ready(limiter.peek(&())).unwrap().remaining(), 9);
}
