//! `RateLimiter`, its observer and `LocalStore` with the feature `local` alone, and without a
//! runtime.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tollgate::{
    LocalRateLimiter, Quota, RateLimiter, Timestamp,
    algorithm::{FixedWindow, TokenBucket},
    clock::ManualClock,
    observe::{Event, Trace},
    store::LocalStore,
};

#[test]
fn a_caller_is_refused_until_the_announced_instant_and_an_observer_is_told() {
    let clock = ManualClock::at(Timestamp::from_micros(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let observer = move |event: &Event<'_, String>| {
        told.lock().unwrap().push(event.outcome().name());
    };
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(2)), store);
    let limiter = limiter.observe((Trace::new(), observer));

    assert_eq!(limiter.check_cost("bob", 2).now().remaining(), 0);
    let refused = limiter.check("bob").now();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
    clock.advance(Duration::from_micros(499_999));
    assert!(!limiter.check("bob").now().is_admitted());
    clock.advance(Duration::from_micros(1));
    assert!(limiter.check("bob").now().is_admitted());
    limiter.debit("bob", 1).now();
    let outcomes = ["admitted", "refused", "refused", "admitted", "debited"];
    assert_eq!(*seen.lock().unwrap(), outcomes);
}

#[test]
fn the_machine_s_clock_and_further_algorithms_are_there() {
    let per_day = FixedWindow::new(Quota::per_day(3)).named("per-day");
    let limits = (TokenBucket::new(Quota::per_hour(2)), per_day);
    let limiter: LocalRateLimiter<_, u64> = RateLimiter::new(limits, LocalStore::new());
    let admitted = [(); 4].map(|()| limiter.check(&7).now().is_admitted());
    assert_eq!(admitted, [true, true, false, false]);
    assert!(limiter.check(&8).now().is_admitted());
    limiter.refund(&7, 1).now();
    assert!(limiter.check(&7).now().is_admitted());
    limiter.reset(&7).now();
    assert_eq!(limiter.peek(&7).now().remaining(), 2);
}
