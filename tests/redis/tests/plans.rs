//! Numbers that depend on the request, and numbers that are replaced, over Redis: what was used is
//! kept.

use std::{convert::Infallible, time::Duration};

use http::{Request, Response};
use tollgate::{
    Decision, Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::{
        FixedWindow, Scripted, Settled, SlidingBuckets, SlidingLog, SlidingWindow, TokenBucket,
    },
    choice::{Reloadable, by_request},
    clock::ManualClock,
    key::Header,
    store::{LocalStore, Store},
};
use tollgate_redis_tests::Redis;
use tower::{Layer, ServiceExt, service_fn};

#[derive(Debug, Clone, Copy)]
enum Plan {
    Free,
    Paid,
}

fn request(plan: Plan) -> Request<String> {
    let request = Request::get("/").header("x-user", "bob").extension(plan);
    request.body(String::new()).unwrap()
}

/// Two a day for nothing and five for money. Whoever pays in the middle of the day gets the other
/// three of a window; a bucket keeps how long it takes to recover, which is all day.
fn a_change_of_plan_keeps_what_was_used<A: Scripted>(of: impl Fn(u64) -> A, is_window: bool) {
    let redis = &Redis::start();
    let (free, paid) = (of(2), of(5));
    let start = Timestamp::from_micros(1_700_000_000_000_000);
    let clock = ManualClock::at(start);
    let limit = RateLimitLayer::new(
        by_request(
            move |request: &Request<String>| match request.extensions().get() {
                Some(Plan::Paid) => paid.clone(),
                _ => free.clone(),
            },
        ),
        redis.store(clock),
        Header::new("x-user"),
    );
    let service = limit.layer(service_fn(|_| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    use Plan::{Free, Paid};
    let asked = [Free, Free, Free, Paid, Free, Paid, Paid, Paid, Free];
    let answered = asked.map(|plan| {
        let response = redis.wait(service.clone().oneshot(request(plan)));
        response.unwrap().status().as_u16()
    });
    // After a change to a smaller plan all of it counts too.
    let expected = match is_window {
        true => [200, 200, 429, 200, 429, 200, 200, 429, 429],
        false => [200, 200, 429, 429, 429, 429, 429, 429, 429],
    };
    assert_eq!(answered, expected, "{}", std::any::type_name::<A>());
}

#[test]
fn a_change_of_plan_takes_effect_with_the_next_request() {
    let (day, hour) = (Quota::per_day, Duration::from_secs(3_600));
    a_change_of_plan_keeps_what_was_used(|units| FixedWindow::new(day(units)).named("daily"), true);
    a_change_of_plan_keeps_what_was_used(
        |units| SlidingWindow::new(day(units)).named("daily"),
        true,
    );
    a_change_of_plan_keeps_what_was_used(|units| SlidingLog::new(day(units)).named("daily"), true);
    a_change_of_plan_keeps_what_was_used(
        |units| SlidingBuckets::new(day(units), hour).named("daily"),
        true,
    );
    a_change_of_plan_keeps_what_was_used(
        |units| TokenBucket::new(day(units)).named("daily"),
        false,
    );
}

#[test]
fn a_limit_that_is_replaced_keeps_what_was_used() {
    let redis = Redis::start();
    let daily = |units| FixedWindow::new(Quota::per_day(units)).named("daily");
    let limit = Reloadable::new(daily(2));
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let limiter = RateLimiter::new(limit.clone(), redis.store(clock));
    let bob = "bob".to_owned();
    assert_eq!(
        redis.wait(limiter.check_cost(&bob, 2)).unwrap().remaining(),
        0
    );
    limit.replace(daily(5)).unwrap();
    assert_eq!(redis.wait(limiter.check(&bob)).unwrap().remaining(), 2);
    limit.replace(daily(1)).unwrap();
    let refused = redis.wait(limiter.check(&bob)).unwrap();
    assert!(
        !refused.is_admitted() && refused.limit() == 1,
        "{refused:?}"
    );
    redis.wait(limiter.refund(&bob, 3)).unwrap();
    assert!(redis.wait(limiter.check(&bob)).unwrap().is_admitted());
}

/// A plan that is ten thousand times slower holds nearly all, while the fast one settles.
fn settled_by_a_plan_that_is_much_faster<S>(redis: &Redis, store: S, _: &ManualClock) -> Decision
where
    S: Store<Settled<TokenBucket>, String>,
{
    let plan = |units, seconds| {
        let quota = Quota::new(units, Duration::from_secs(seconds));
        RateLimiter::new(TokenBucket::new(quota).named("n").settled(), store.clone())
    };
    let (fast, slow) = (plan(10_007, 60), plan(1_000, 30 * 86_400));
    redis.wait(async {
        let held = fast.hold("bob", 1).await.unwrap().unwrap();
        let nearly_all = slow.hold("bob", 900).await.unwrap().unwrap();
        held.settle(1).await.unwrap();
        let decision = slow.peek("bob").await.unwrap();
        nearly_all.settle(900).await.unwrap();
        decision
    })
}

/// What a fast plan held beside a log is over in the log, and a slow plan looks.
fn looked_at_beside_a_log<S>(redis: &Redis, store: S, clock: &ManualClock) -> Decision
where
    S: Store<(Settled<TokenBucket>, Settled<SlidingLog>), String>,
{
    let plan = |units| {
        let bucket = TokenBucket::new(Quota::per_hour(units)).named("n");
        let log = SlidingLog::new(Quota::per_hour(5_000)).named("m");
        RateLimiter::new((bucket.settled(), log.settled()), store.clone())
    };
    let (fast, slow) = (plan(1_000), plan(10));
    redis.wait(async {
        let _held = fast.hold("bob", 1_000).await.unwrap().unwrap();
        clock.advance(Duration::from_secs(121));
        slow.peek("bob").await.unwrap();
        clock.advance(Duration::from_secs(1));
        *slow.hold("bob", 5).await.unwrap().unwrap_err()
    })
}

#[test]
fn what_other_plans_hold_is_worth_the_same_in_memory_and_in_redis() {
    let redis = &Redis::start();
    let start = Timestamp::from_micros(1_700_000_000_000_000);
    let clock = &ManualClock::at(start);
    let in_memory = LocalStore::builder().clock(clock.clone()).build();
    let settled = settled_by_a_plan_that_is_much_faster(redis, in_memory, clock);
    let in_redis = redis.store(clock.clone());
    assert_eq!(
        settled_by_a_plan_that_is_much_faster(redis, in_redis, clock),
        settled
    );

    let in_memory = LocalStore::builder().clock(clock.clone()).build();
    let refused = looked_at_beside_a_log(redis, in_memory, clock);
    clock.set(start);
    let in_redis = redis.store(clock.clone());
    assert_eq!(looked_at_beside_a_log(redis, in_redis, clock), refused);
}
