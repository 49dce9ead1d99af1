//! What `LocalStore` promises: idle keys leave, the rest stays, and nothing that goes wrong opens a
//! limit.

use std::time::Duration;

use crate::local::{MINUTE, admits, remaining, store};
use crate::ready::ready;
use tollgate::{
    Quota, RateLimiter,
    algorithm::{Ending, FixedWindow, LeakyBucket, Limit},
    store::{Answer, Ask, Change, Store},
};

#[test]
fn a_key_that_gets_an_entry_later_starts_from_the_overflow_bucket() {
    let (store, _clock) = store(1);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_hour(10)), store.clone());
    assert!(admits(&limiter, &0_u64));
    // Who only looks, or asks for more than ever fits, needs no room.
    assert_eq!(remaining(&limiter, &1), 10);
    assert!(!ready(limiter.check_cost(&1, 11)).unwrap().is_admitted());
    assert_eq!(store.usage().overflow_decisions, 0);
    for _ in 0..6 {
        assert!(admits(&limiter, &1));
    }
    // A newcomer who asks for nothing is told what newcomers have left.
    let asked = ready(limiter.check_cost(&2, 0)).unwrap();
    assert_eq!((asked.is_admitted(), asked.remaining()), (true, 4));
    ready(limiter.reset(&0)).unwrap();
    assert_eq!(remaining(&limiter, &1), 4);
    assert!(admits(&limiter, &1));
    assert_eq!((remaining(&limiter, &1), store.usage().keys), (3, 1));
    assert_eq!((0..10).filter(|_| admits(&limiter, &1)).count(), 3);
}

#[test]
fn a_newcomer_takes_the_place_of_an_idle_key_wherever_it_is() {
    let (store, clock) = store(1);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_minute(1)), store.clone());
    // Each falls into another part of the table than most of the others.
    for newcomer in 0..200_u64 {
        assert!(admits(&limiter, &newcomer));
        let usage = store.usage();
        assert_eq!((usage.keys, usage.overflow_decisions), (1, 0), "{newcomer}");
        clock.advance(MINUTE);
    }
}

#[test]
fn a_newcomer_who_hangs_up_gives_back_its_turn_in_the_queue_that_newcomers_share() {
    let (store, _clock) = store(1);
    let queue = LeakyBucket::new(Quota::per_second(10)).queue();
    let asks = |key: u64| match store.decide(&queue, &key, Ask::Charge(1)) {
        Answer::Now(verdict) => verdict.unwrap().snapshot,
        Answer::Later(_) => panic!("a store in memory decides at once"),
    };
    asks(0);
    let delays = [1, 2, 3].map(|key| queue.delay_of(&asks(key)));
    let turn = Duration::from_millis(100);
    assert_eq!(delays, [Duration::ZERO, turn, 2 * turn]);
    // The last in the queue gives its turn to the next newcomer.
    let last = asks(4);
    assert_eq!(queue.delay_of(&last), 3 * turn);
    let withdrawn = Change::End(&last, Ending::Withdrawn { cost: 1 });
    drop(store.change(&queue, &4, withdrawn));
    assert_eq!(queue.delay_of(&asks(5)), 3 * turn);
}

#[test]
fn a_key_that_is_reset_while_the_store_is_full_does_not_pay_for_newcomers() {
    let (store, _clock) = store::<FixedWindow, u64>(1);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(2)), store);
    assert!(admits(&limiter, &0));
    while admits(&limiter, &1) {}
    ready(limiter.reset(&0)).unwrap();
    assert_eq!(remaining(&limiter, &0), 2);
    assert!(admits(&limiter, &0));
}
