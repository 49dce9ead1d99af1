//! How often new keys and peeks copy a state: states such as logs are expensive to copy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::ready::ready;
use tollgate::{
    EachOf, PolicyDecision, RateLimiter, Timestamp,
    algorithm::{Algorithm, Policy, PolicyId, Status},
    key::Key,
    store::{LocalStore, Store, local::LocalBuckets},
};

/// Counts how often it is copied.
#[derive(Debug)]
struct Copied(u64, Arc<AtomicUsize>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        self.1.fetch_add(1, Ordering::Relaxed);
        Self(self.0, Arc::clone(&self.1))
    }
}

/// Admits this many units, ever; counts the copies of its state.
#[derive(Debug, Clone)]
struct Ever(u64, Arc<AtomicUsize>);

impl Algorithm for Ever {
    type State = Copied;
    type Snapshot = Status;

    fn policy_id(&self) -> PolicyId {
        Policy::new("ever", &[self.0], Duration::ZERO).id()
    }
    fn fresh(&self, _at: Timestamp) -> Copied {
        Copied(0, Arc::clone(&self.1))
    }
    fn judge(&self, state: &Copied, cost: u32, _now: Timestamp) -> bool {
        state.0 + u64::from(cost) <= self.0
    }
    fn debit(&self, state: &mut Copied, units: u64, _now: Timestamp) {
        state.0 += units;
    }
    fn refund(&self, state: &mut Copied, cost: u32, _now: Timestamp) {
        state.0 = state.0.saturating_sub(u64::from(cost));
    }
    fn is_fresh(&self, state: &Copied, _now: Timestamp) -> bool {
        state.0 == 0
    }
    fn snapshot(
        &self,
        state: &Copied,
        cost: u32,
        admitted: bool,
        _now: Timestamp,
    ) -> Self::Snapshot {
        let left = self.0 - state.0;
        Self::Snapshot::of(self.0, left, u64::from(cost), admitted, |_| None)
    }
    fn describe(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        let policy = Policy::new("ever", &[self.0], Duration::ZERO);
        tell(PolicyDecision::new(&policy, *snapshot));
    }
}

fn refusing_newcomers_copies_no_state<A, K>(
    limits: impl FnOnce(&dyn Fn() -> Ever) -> A,
    keys: impl Fn(u64) -> K,
) where
    A: LocalBuckets<K>,
    K: Key,
    LocalStore<A, K>: Store<A, K>,
{
    let copies = Arc::default();
    let store = LocalStore::builder().max_keys(1).build();
    let limiter = RateLimiter::new(limits(&|| Ever(3, Arc::clone(&copies))), store);
    let admits = |key| ready(limiter.check(&keys(key))).unwrap().is_admitted();
    assert!(admits(0));
    while admits(1) {}
    let refuses = || {
        let before = copies.load(Ordering::Relaxed);
        for key in 2..1_000_u64 {
            assert!(!admits(key));
        }
        assert_eq!(copies.load(Ordering::Relaxed), before);
    };
    refuses();
    // There is room again, where a newcomer would start from what is charged to the shared bucket.
    ready(limiter.refund(&keys(0), 1)).unwrap();
    refuses();
}

#[test]
fn refusing_newcomers_copies_no_state_however_large() {
    refusing_newcomers_copies_no_state(|ever| ever(), |key| key);
}

#[test]
fn refusing_newcomers_with_several_keys_copies_no_state_either() {
    refusing_newcomers_copies_no_state(
        |ever| EachOf((ever(), ever())),
        |key| EachOf((Some(key), Some(key))),
    );
}

#[test]
fn a_copy_is_made_for_a_newcomer_who_gets_a_place_and_for_nobody_else() {
    let copies = Arc::default();
    let store = LocalStore::builder().max_keys(1).build();
    let limiter = RateLimiter::new(Ever(1_000, Arc::clone(&copies)), store.clone());
    let made = || copies.load(Ordering::Relaxed);
    let admits = |key: u64| ready(limiter.check(&key)).unwrap().is_admitted();
    let remaining = |key: u64| ready(limiter.peek(&key)).unwrap().remaining();
    assert!(admits(0));
    for newcomer in 1..=100 {
        assert!(admits(newcomer));
    }
    assert_eq!((store.usage().overflow_decisions, made()), (100, 0));
    // Its slot is free again.
    ready(limiter.refund(&0, 1)).unwrap();
    assert!(admits(101));
    assert_eq!(made(), 1);
    assert_eq!((remaining(101), remaining(1)), (899, 900));
    assert_eq!(
        (store.usage().overflow_decisions, store.usage().keys),
        (100, 1)
    );
}

#[test]
fn with_several_keys_a_copy_is_made_for_each_that_gets_a_place_and_for_no_other() {
    let copies = Arc::default();
    let store = LocalStore::builder().max_keys(1).build();
    let ever = || Ever(1_000, Arc::clone(&copies));
    let limiter = RateLimiter::new(EachOf((ever(), ever())), store.clone());
    let made = || copies.load(Ordering::Relaxed);
    let both = |key: u64| EachOf((Some(key), Some(key)));
    let admits = |key: u64| ready(limiter.check(&both(key))).unwrap().is_admitted();
    let remaining = |key: u64| ready(limiter.peek(&both(key))).unwrap().remaining();
    assert!(admits(0));
    for newcomer in 1..=100 {
        assert!(admits(newcomer));
    }
    assert_eq!((store.usage().overflow_decisions, made()), (200, 0));
    ready(limiter.refund(&both(0), 1)).unwrap();
    assert!(admits(101));
    assert_eq!(made(), 2);
    assert_eq!((remaining(101), remaining(1)), (899, 900));
    assert_eq!(
        (store.usage().overflow_decisions, store.usage().keys),
        (200, 2)
    );
}
