//! A store that is full of live keys is logged. (This test is alone in its file: if two threads
//! reach an event for the first time together, `tracing` may lose both.)

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::in_time::in_time;
use crate::listener::Listener;
use crate::ready::ready;
use tollgate::{Quota, RateLimiter, algorithm::FixedWindow, store::LocalStore};
use tracing::Event;

#[test]
fn an_operator_whose_store_is_full_is_told_once_and_may_ask_the_same_store() {
    in_time(|| {
        let limiter_of = |units| {
            let store = LocalStore::builder().max_keys(2).build();
            RateLimiter::new(FixedWindow::new(Quota::per_day(units)), store)
        };
        let [limiter, other] = [3, 1_000].map(limiter_of);
        let told = Arc::new(AtomicUsize::new(0));
        let (count, asked) = (Arc::clone(&told), limiter.clone());
        let asks = Listener(move |event: &Event<'_>| {
            assert_eq!(event.metadata().target(), "tollgate::local_store");
            count.fetch_add(1, Ordering::Relaxed);
            assert!(ready(asked.check(&1_000_000)).is_ok());
        });
        tracing::subscriber::with_default(asks, || {
            // Two keys have an entry. Later ones share a bucket, and most of them are refused.
            for (before, limiter) in [limiter, other].iter().enumerate() {
                for key in 0..100 {
                    let _ = ready(limiter.check(&key));
                    let times = before + usize::from(key >= 2);
                    assert_eq!(told.load(Ordering::Relaxed), times, "after key {key}");
                }
            }
        });
    });
}
