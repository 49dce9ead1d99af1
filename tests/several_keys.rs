//! Several keys in one check, in a store that is full, and with keys whose own code panics: all are
//! charged or none is.

use std::{
    cell::Cell,
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::curious::Curious;
use crate::in_time::in_time;
use crate::ready::ready;
use tollgate::{
    Decision, EachOf, Quota, RateLimiter, Timestamp,
    algorithm::FixedWindow,
    clock::ManualClock,
    key::Key,
    store::{LocalStore, local::LocalBuckets},
};

const START: Timestamp = Timestamp::from_micros(1_700_000_040_000_000);
const MINUTE: Duration = Duration::from_secs(60);

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
    let clock = ManualClock::at(START);
    let store = LocalStore::builder()
        .clock(clock.clone())
        .max_keys(max_keys)
        .build();
    (RateLimiter::new(limits, store.clone()), store, clock)
}

fn check<K: Key>(limiter: &Limiter<K>, first: Option<K>, second: Option<K>) -> Decision {
    ready(limiter.check(&EachOf((first, second)))).unwrap()
}

fn left<K: Key>(limiter: &Limiter<K>, first: Option<K>, second: Option<K>) -> Vec<u64> {
    let decision = ready(limiter.peek(&EachOf((first, second)))).unwrap();
    let policies = decision.policies().iter();
    policies.map(|policy| policy.remaining()).collect()
}

#[test]
fn several_keys_are_decided_about_without_async_as_they_are_with_it() {
    let limiters = [(); 2].map(|()| limited::<u32>(per_minute(3, 2), 10).0);
    let [at_once, awaited] = &limiters;
    for (first, second, cost) in [
        (Some(1), Some(1), 1),
        (Some(1), None, 2),
        (Some(1), Some(2), 1),
        (None, Some(1), 1),
        (Some(2), Some(1), 1),
    ] {
        let keys = EachOf((first, second));
        let decision = at_once.check_cost(&keys, cost).now();
        assert_eq!(decision, ready(awaited.check_cost(&keys, cost)).unwrap());
        let decision = at_once.peek(&keys).now();
        assert_eq!(decision, ready(awaited.peek(&keys)).unwrap());
    }
    let bob = EachOf((Some(1), Some(1)));
    assert!(!at_once.check(&bob).now().is_admitted());
    at_once.refund(&bob, 1).now();
    assert!(at_once.check(&bob).now().is_admitted());
    assert!(!at_once.check(&bob).now().is_admitted());
    at_once.reset(&bob).now();
    assert_eq!(left(at_once, Some(1), Some(1)), [3, 2]);
}

#[test]
fn a_newcomer_who_is_refused_by_one_key_takes_no_place_for_the_other() {
    let (limiter, store, _clock) = limited::<u32>(per_minute(5, 1), 3);
    assert!(check(&limiter, Some(0), Some(0)).is_admitted());
    for newcomer in 1..1_000 {
        let refused = check(&limiter, Some(newcomer), Some(0));
        assert_eq!(refused.policy(), "second");
    }
    let usage = store.usage();
    assert_eq!((usage.keys, usage.overflow_decisions), (2, 0));
    // There is still room for two.
    assert!(check(&limiter, Some(2_000), Some(2_000)).is_admitted());
    assert!(check(&limiter, Some(2_001), Some(2_001)).is_admitted());
    assert_eq!(store.usage().keys, 6);
    assert_eq!(store.usage().overflow_decisions, 0);
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
    assert_eq!(store.usage().keys, 2);
    assert_eq!(store.usage().overflow_decisions, 6);
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
fn a_key_that_gets_an_entry_later_starts_from_the_overflow_bucket() {
    let (limiter, store, clock) = limited::<u32>(per_minute(3, 9), 1);
    assert!(check(&limiter, Some(0), Some(0)).is_admitted());
    clock.advance(MINUTE / 2);
    for _ in 0..2 {
        assert!(check(&limiter, Some(1), Some(0)).is_admitted());
    }
    // The first key leaves, and another takes its place, who may be one of those that shared the
    // bucket.
    clock.advance(MINUTE / 2);
    assert!(check(&limiter, Some(2), None).is_admitted());
    assert!(!check(&limiter, Some(2), None).is_admitted());
    assert_eq!(store.usage().keys, 2);
    assert_eq!(left(&limiter, Some(1), None), [1]);
}

#[test]
fn an_operator_who_is_warned_may_ask_the_same_store_and_is_warned_once() {
    in_time(|| {
        let (limiter, _store, _clock) = limited::<u32>(per_minute(100, 100), 1);
        let told = Arc::new(AtomicUsize::new(0));
        let asked = limiter.clone();
        let curious = Curious {
            ask: move || {
                // The one that is full, and one that is known.
                check(&asked, Some(99), Some(99));
                assert!(check(&asked, Some(0), Some(0)).is_admitted());
            },
            told: Arc::clone(&told),
        };
        tracing::subscriber::with_default(curious, || {
            for key in 0..10 {
                check(&limiter, Some(key), Some(key));
            }
        });
        // The other place's warning comes while this one is told, when `tracing` tells nothing
        // else.
        assert_eq!(told.load(Ordering::Relaxed), 1);
    });
}

thread_local! {
    /// After so many calls of a key's own code it panics once.
    static PANICS_AFTER: Cell<Option<u32>> = const { Cell::new(None) };
    static CLONES: Cell<u32> = const { Cell::new(0) };
}

fn may_panic() {
    let left = PANICS_AFTER.get();
    PANICS_AFTER.set(left.and_then(|left| left.checked_sub(1)));
    assert!(left != Some(0), "the key's own code panics");
}

/// A key whose every method may panic.
#[derive(Debug)]
struct Rigged(u32);

impl Clone for Rigged {
    fn clone(&self) -> Self {
        may_panic();
        CLONES.set(CLONES.get() + 1);
        Self(self.0)
    }
}

impl PartialEq for Rigged {
    fn eq(&self, other: &Self) -> bool {
        may_panic();
        self.0 == other.0
    }
}

impl Eq for Rigged {}

impl Hash for Rigged {
    fn hash<H: Hasher>(&self, state: &mut H) {
        may_panic();
        self.0.hash(state);
    }
}

#[test]
fn wherever_a_key_panics_all_are_charged_or_none_is() {
    // So many keys that shards grow, shrink and drop idle keys while the code of a key panics.
    let (limiter, store, clock) = limited::<Rigged>(per_minute(2, 4), 100_000);
    let key = |number| Some(Rigged(number));
    let mut panics = 0;
    for number in 0..20_000 {
        let partner = 1_000_000 + number / 2;
        let before = (
            left(&limiter, key(number), key(partner)),
            store.usage().keys,
        );
        PANICS_AFTER.set(Some(number % 9));
        let result = catch_unwind(AssertUnwindSafe(|| {
            check(&limiter, key(number), key(partner))
        }));
        PANICS_AFTER.set(None);
        let after = left(&limiter, key(number), key(partner));
        let both = [before.0[0] - after[0], before.0[1] - after[1]];
        match result {
            Ok(decision) => assert_eq!(both, [u64::from(decision.is_admitted()); 2]),
            Err(_) => {
                panics += 1;
                assert!(both == [0, 0] || both == [1, 1], "{number}: {both:?}");
            }
        }
        if number % 5_000 == 4_999 {
            clock.advance(MINUTE);
        }
    }
    assert!(panics > 5_000, "{panics}");
}

#[test]
fn a_check_copies_each_key_once() {
    let (limiter, _store, _clock) = limited::<Rigged>(per_minute(2, 2), 100);
    for (number, copies) in [(1, 2), (1, 2), (1, 2), (2, 2)] {
        CLONES.set(0);
        check(&limiter, Some(Rigged(number)), Some(Rigged(number)));
        assert_eq!(CLONES.get(), copies);
    }
    CLONES.set(0);
    check(&limiter, Some(Rigged(1)), None);
    assert_eq!(CLONES.get(), 1);
}

#[test]
fn a_caller_without_any_key_is_told_that_nothing_was_used() {
    let (limiter, store, _clock) = limited::<u32>(per_minute(3, 9), 10);
    let decision = check(&limiter, None, None);
    assert!(decision.is_admitted());
    assert_eq!((decision.policy(), decision.remaining()), ("first", 3));
    assert_eq!(store.usage().keys, 0);
}
