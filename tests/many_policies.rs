//! Many policies on one store: each is found as soon as the others, and has buckets of its own.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::at_once::at_once;
use crate::local::store;
use crate::ready::ready;
use tollgate::{Quota, RateLimiter, algorithm::FixedWindow};

const MANY: u64 = 10_000;

fn unnamed(number: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(number))
}

#[test]
fn the_last_of_ten_thousand_policies_is_decided_about_as_soon_as_the_second() {
    let (store, _clock) = store(2);
    let limiter_of = |number| RateLimiter::new(unnamed(number), store.clone());
    for number in 1..=MANY {
        assert!(ready(limiter_of(number).check(&7)).unwrap().is_admitted());
    }
    let quickest = |number| -> Duration {
        let limiter = limiter_of(number);
        let turn = || {
            let start = Instant::now();
            for _ in 0..1_000 {
                let _ = ready(limiter.check(&7));
            }
            start.elapsed()
        };
        (0..5).map(|_| turn()).min().expect("five")
    };
    let (second, last) = (quickest(2), quickest(MANY));
    // A walk past all others would take thousands of times as long.
    assert!(last < 50 * second, "{last:?}, and {second:?} of the second");
}

#[test]
fn threads_that_bring_the_same_policies_find_the_same_buckets() {
    // Each of the four may hold a place for the same key while it brings it.
    let (store, _clock) = store(4);
    let admitted = AtomicUsize::new(0);
    at_once(4, |turn| {
        for number in 1..=2_000 {
            // Two from one end, two from the other.
            let number = [number, 2_001 - number][turn as usize % 2];
            let limiter = RateLimiter::new(unnamed(number), store.clone());
            for _ in 0..2 {
                let decision = ready(limiter.check(&7)).unwrap();
                admitted.fetch_add(decision.is_admitted().into(), Ordering::Relaxed);
            }
        }
    });
    // Eight asked, of each.
    let due: usize = (1..=2_000).map(|units: usize| units.min(8)).sum();
    assert_eq!(admitted.into_inner(), due);
    let usage = store.usage();
    assert_eq!((usage.keys, usage.overflow_decisions), (2_000, 0));
}
