//! Numbers that depend on the request, and numbers that are replaced, over Redis: what was used is
//! kept.

use std::{convert::Infallible, time::Duration};

use http::{Request, Response};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter, Timestamp,
    algorithm::{FixedWindow, Scripted, SlidingBuckets, SlidingLog, SlidingWindow, TokenBucket},
    choice::{Reloadable, by_request},
    clock::ManualClock,
    key::Header,
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
