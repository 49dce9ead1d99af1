//! `RateLimiter` and `LocalStore` with the feature `local` alone, and without a runtime.

use std::time::Duration;

use tollgate::{
    Decision, LocalRateLimiter, Quota, RateLimiter, Timestamp,
    algorithm::{FixedWindow, TokenBucket},
    clock::ManualClock,
    store::LocalStore,
};

#[test]
fn a_caller_is_refused_until_the_announced_instant() {
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(2)), store);

    assert_eq!(limiter.check_cost("bob", 2).now().remaining(), 0);
    let refused = limiter.check("bob").now();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
    assert!(limiter.check("alice").now().is_admitted());

    clock.advance(Duration::from_micros(499_999));
    assert!(!limiter.check("bob").now().is_admitted());
    clock.advance(Duration::from_micros(1));
    assert!(limiter.check("bob").now().is_admitted());
}

#[test]
fn the_machine_s_clock_and_further_algorithms_are_there() {
    let per_day = FixedWindow::new(Quota::per_day(3)).named("per-day");
    let limits = (TokenBucket::new(Quota::per_hour(2)), per_day);
    let limiter: LocalRateLimiter<_, u64> = RateLimiter::new(limits, LocalStore::new());

    let admitted = (0..4).map(|_| limiter.check(&7).now());
    let admitted: Vec<bool> = admitted
        .map(|decision: Decision| decision.is_admitted())
        .collect();
    assert_eq!(admitted, [true, true, false, false]);
    limiter.refund(&7, 1).now();
    assert!(limiter.check(&7).now().is_admitted());
    limiter.reset(&7).now();
    assert_eq!(limiter.peek(&7).now().remaining(), 2);
}
