use std::pin::pin;

use futures_util::FutureExt;

use crate::{Quota, algorithm::TokenBucket, store::LocalStore};

use super::*;

#[test]
fn nothing_is_done_before_now_is_called_or_it_is_polled_nor_if_it_is_dropped() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(4)), LocalStore::new());
    let [first, second, third] = [2, 3, 1].map(|cost| limiter.check_cost("bob", cost));
    let (refund, reset) = (limiter.refund("bob", 1), limiter.reset("bob"));
    drop((limiter.check("bob"), limiter.refund("bob", 1)));
    assert!(second.now().is_admitted());
    assert!(!first.now().is_admitted());
    let third = third.now_or_never().expect("a decision").unwrap();
    assert_eq!(third.remaining(), 0);
    drop(limiter.reset("bob"));
    refund.now();
    assert_eq!(limiter.peek("bob").now().remaining(), 1);
    reset.now();
    assert_eq!(limiter.peek("bob").now().remaining(), 4);
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn it_decides_once() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
    let mut check = pin!(limiter.check("bob"));
    assert!(check.as_mut().now_or_never().is_some());
    let _ = check.now_or_never();
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn what_was_awaited_is_not_asked_once_more() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
    let mut check = limiter.check("bob");
    assert!((&mut check).now_or_never().is_some());
    let _ = check.now();
}
