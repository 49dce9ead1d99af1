//! Several keys in one check, in a store that is full, and with keys whose own code panics: all are
//! charged or none is.

use crate::local::{MINUTE, store};
use crate::ready::ready;
use tollgate::{
    Decision, EachOf, Quota, RateLimiter,
    algorithm::FixedWindow,
    clock::ManualClock,
    key::Key,
    store::{LocalBuckets, LocalStore},
};

type Limits = EachOf<(FixedWindow, FixedWindow)>;
type Keys<K> = EachOf<(Option<K>, Option<K>)>;
type Store<K> = LocalStore<Limits, Keys<K>, ManualClock>;
type Limiter<K> = RateLimiter<Limits, Store<K>>;

fn per_minute(first: u64, second: u64) -> Limits {
    let window = |units, name| {
        let window = FixedWindow::new(Quota::per_minute(units));
        window.from_first_request().named(name)
    };
    EachOf((window(first, "first"), window(second, "second")))
}

fn limited<K: Key>(limits: Limits, max_keys: usize) -> (Limiter<K>, Store<K>, ManualClock)
where
    Limits: LocalBuckets<Keys<K>>,
{
    let (store, clock) = store(max_keys);
    (RateLimiter::new(limits, store.clone()), store, clock)
}

fn check<K: Key>(limiter: &Limiter<K>, first: Option<K>, second: Option<K>) -> Decision {
    ready(limiter.check(&EachOf((first, second)))).unwrap()
}

fn left<K: Key>(limiter: &Limiter<K>, first: Option<K>, second: Option<K>) -> Vec<u64> {
    crate::local::left(&ready(limiter.peek(&EachOf((first, second)))).unwrap())
}

#[test]
fn newcomers_to_a_full_place_share_one_bucket_and_the_other_place_is_as_always() {
    let (limiter, store, _clock) = limited::<u32>(per_minute(3, 9), 1);
    assert!(check(&limiter, Some(0), None).is_admitted());
    for newcomer in [1, 2, 1] {
        assert!(check(&limiter, Some(newcomer), Some(7)).is_admitted());
    }
    for newcomer in [1, 2, 3] {
        let refused = check(&limiter, Some(newcomer), Some(7));
        assert_eq!(refused.policy(), "first");
    }
    assert_eq!(left(&limiter, Some(0), Some(7)), [2, 6]);
    let usage = store.usage();
    assert_eq!((usage.keys, usage.overflow_decisions), (2, 6));
}

#[test]
fn a_refusal_by_another_key_leaves_the_overflow_bucket_as_it_was() {
    let (limiter, store, clock) = limited::<u32>(per_minute(3, 1), 1);
    assert!(check(&limiter, Some(0), Some(0)).is_admitted());
    for _ in 0..5 {
        assert_eq!(check(&limiter, Some(1), Some(0)).policy(), "second");
    }
    assert_eq!(left(&limiter, Some(1), Some(0)), [3, 0]);
    // As nothing was ever charged there, a key that is reset leaves its place.
    ready(limiter.reset(&EachOf((Some(0), None)))).unwrap();
    assert_eq!(store.usage().keys, 1);
    assert!(check(&limiter, Some(1), None).is_admitted());
    clock.advance(MINUTE);
    assert_eq!(left(&limiter, Some(1), Some(0)), [3, 1]);
}

#[test]
fn a_caller_without_any_key_passes_by_no_policy() {
    let (limiter, store, _clock) = limited::<u32>(per_minute(3, 9), 10);
    let decision = check(&limiter, None, None);
    assert!(decision.is_admitted());
    assert!(decision.policies().is_empty());
    assert_eq!(store.usage().keys, 0);
}
