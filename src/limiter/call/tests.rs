use std::{pin::pin, task::Waker};

use crate::{Quota, algorithm::TokenBucket, store::LocalStore};

use super::*;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn nothing_is_done_before_now_is_called() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(3)), LocalStore::new());
    let [first, second] = [limiter.check_cost("bob", 2), limiter.check_cost("bob", 3)];
    let (refund, reset) = (limiter.refund("bob", 1), limiter.reset("bob"));
    assert!(second.now().is_admitted());
    assert!(!first.now().is_admitted());
    refund.now();
    assert_eq!(limiter.peek("bob").now().remaining(), 1);
    reset.now();
    assert_eq!(limiter.peek("bob").now().remaining(), 3);
}

#[test]
fn a_call_that_is_dropped_does_nothing() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(3)), LocalStore::new());
    assert!(limiter.check("bob").now().is_admitted());
    drop(limiter.check("bob"));
    drop(limiter.refund("bob", 1));
    drop(limiter.reset("bob"));
    assert_eq!(limiter.peek("bob").now().remaining(), 2);
}

#[test]
fn nothing_is_charged_before_it_is_polled() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(1)), LocalStore::new());
    drop(limiter.check("bob"));
    let [first, second] = [limiter.check("bob"), limiter.check("bob")];
    let told = [second, first].map(|check| poll(pin!(check)));
    let admitted = told.map(|told| matches!(told, Poll::Ready(Ok(told)) if told.is_admitted()));
    assert_eq!(admitted, [true, false]);
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn it_decides_once() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
    let mut check = pin!(limiter.check("bob"));
    assert!(poll(check.as_mut()).is_ready());
    let _ = poll(check);
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn what_was_awaited_is_not_asked_once_more() {
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
    let mut check = limiter.check("bob");
    assert!(poll(Pin::new(&mut check)).is_ready());
    let _ = check.now();
}
