//! `RateLimiter` and `LocalStore` with the feature `local` alone, and without a runtime.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tollgate::{
    Decision, LocalRateLimiter, Quota, RateLimiter, StoreError, Timestamp,
    algorithm::{FixedWindow, TokenBucket},
    clock::ManualClock,
    store::LocalStore,
};

/// The answer of a store in memory, which is there when it is first asked for.
fn now<T>(asked: impl Future<Output = Result<T, StoreError>>) -> T {
    match pin!(asked).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.expect("memory does not fail"),
        Poll::Pending => panic!("a store in memory waits for nothing"),
    }
}

#[test]
fn a_caller_is_refused_until_the_announced_instant() {
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(2)), store);

    assert_eq!(now(limiter.check_cost("bob", 2)).remaining(), 0);
    let refused = now(limiter.check("bob"));
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
    assert!(now(limiter.check("alice")).is_admitted());

    clock.advance(Duration::from_micros(499_999));
    assert!(!now(limiter.check("bob")).is_admitted());
    clock.advance(Duration::from_micros(1));
    assert!(now(limiter.check("bob")).is_admitted());
}

#[test]
fn the_machine_s_clock_and_further_algorithms_are_there() {
    let per_day = FixedWindow::new(Quota::per_day(3)).named("per-day");
    let limits = (TokenBucket::new(Quota::per_hour(2)), per_day);
    let limiter: LocalRateLimiter<_, u64> = RateLimiter::new(limits, LocalStore::new());

    let admitted = (0..4).map(|_| now(limiter.check(&7)));
    let admitted: Vec<bool> = admitted
        .map(|decision: Decision| decision.is_admitted())
        .collect();
    assert_eq!(admitted, [true, true, false, false]);
    now(limiter.refund(&7, 1));
    assert!(now(limiter.check(&7)).is_admitted());
    now(limiter.reset(&7));
    assert_eq!(now(limiter.peek(&7)).remaining(), 2);
}
