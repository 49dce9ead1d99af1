//! The operator is told of a store that is full of live keys, and of one whose policies pile up.
//! (Each is told in one test alone: of two threads that come to an event first at the same time,
//! `tracing` may tell neither.)

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::in_time::in_time;
use crate::listener::Listener;
use crate::ready::ready;
use tollgate::{EachOf, Quota, RateLimiter, algorithm::FixedWindow, store::LocalStore};
use tracing::{Event, subscriber::with_default};

fn unnamed(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units))
}

/// Runs it with how often the operator was told so far, who then asks.
fn while_told(asks: impl Fn() + Send + Sync + 'static, run: impl FnOnce(&dyn Fn() -> usize)) {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let operator = Listener(move |event: &Event<'_>| {
        assert_eq!(event.metadata().target(), "tollgate::local_store");
        count.fetch_add(1, Ordering::Relaxed);
        asks();
    });
    with_default(operator, || run(&|| told.load(Ordering::Relaxed)));
}

#[test]
fn an_operator_whose_store_is_full_is_told_once_and_may_ask_the_same_store() {
    in_time(|| {
        let limiter_of = |units| {
            let store = LocalStore::builder().max_keys(2).build();
            RateLimiter::new(unnamed(units), store)
        };
        let [limiter, other] = [3, 1_000].map(limiter_of);
        let asked = limiter.clone();
        let asks = move || assert!(ready(asked.check(&1_000_000)).is_ok());
        while_told(asks, |told| {
            // Two keys have an entry. Later ones share a bucket, and most of them are refused.
            for (before, limiter) in [limiter, other].iter().enumerate() {
                for key in 0..100 {
                    let _ = ready(limiter.check(&key));
                    let times = before + usize::from(key >= 2);
                    assert_eq!(told(), times, "after key {key}");
                }
            }
        });
    });
}

#[test]
fn an_operator_whose_policies_pile_up_is_told_once_and_may_ask_the_same_store() {
    in_time(|| {
        let store = LocalStore::builder().max_keys(2).build();
        // The policies of the second place pile up.
        let limiter_of = move |number| {
            let limits = EachOf((unnamed(1_000_000), unnamed(number)));
            RateLimiter::new(limits, store.clone())
        };
        let (asked, keys) = (limiter_of.clone(), EachOf((Some(7), Some(7))));
        let asks = move || assert!(ready(asked(5_000).check(&keys)).unwrap().is_admitted());
        while_told(asks, |told| {
            for number in 1..=2_000 {
                let _ = ready(limiter_of(number).check(&keys));
                assert_eq!(told(), usize::from(number >= 1_000), "{number} policies");
            }
        });
    });
}
