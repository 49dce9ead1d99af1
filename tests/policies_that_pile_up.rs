//! The operator is told of a store whose policies pile up. (Alone in its file: of two threads that
//! come to an event first at the same time, `tracing` may tell neither.)

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::in_time::in_time;
use crate::listener::Listener;
use crate::ready::ready;
use tollgate::{EachOf, Quota, RateLimiter, algorithm::FixedWindow, store::LocalStore};
use tracing::Event;

fn unnamed(number: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(number))
}

#[test]
fn an_operator_whose_policies_pile_up_is_told_once_and_may_ask_the_same_store() {
    in_time(|| {
        let store = LocalStore::builder().max_keys(2).build();
        // The policies of the second place pile up.
        let limiter_of = {
            let store = store.clone();
            move |number| {
                let limits = EachOf((unnamed(1_000_000), unnamed(number)));
                RateLimiter::new(limits, store.clone())
            }
        };
        let asks = limiter_of.clone();
        let keys = EachOf((Some(7), Some(7)));
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        let asks = Listener(move |event: &Event<'_>| {
            assert_eq!(event.metadata().target(), "tollgate::local_store");
            count.fetch_add(1, Ordering::Relaxed);
            assert!(ready(asks(5_000).check(&keys)).unwrap().is_admitted());
        });
        tracing::subscriber::with_default(asks, || {
            for number in 1..=2_000 {
                let _ = ready(limiter_of(number).check(&keys));
                let was_told = told.load(Ordering::Relaxed);
                assert_eq!(was_told, usize::from(number >= 1_000), "{number} policies");
            }
        });
    });
}
