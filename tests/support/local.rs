//! A `LocalStore` whose clock is set by hand, and what a limiter over it says.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;

use tollgate::{
    Decision, RateLimiter, Timestamp,
    algorithm::KeyLimit,
    clock::ManualClock,
    key::Key,
    store::{AsKey, LocalBuckets, LocalStore},
};

use crate::ready::ready;

/// The start of a minute.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_000_040_000_000);

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) type Limiter<A, K> = RateLimiter<A, LocalStore<A, K, ManualClock>>;

pub(crate) fn admits<A, K, Q>(limiter: &Limiter<A, K>, key: &Q) -> bool
where
    A: KeyLimit,
    K: Key,
    Q: AsKey<K> + ?Sized,
{
    ready(limiter.check(key)).unwrap().is_admitted()
}

pub(crate) fn remaining<A: KeyLimit, K: Key>(limiter: &Limiter<A, K>, key: &K) -> u64 {
    ready(limiter.peek(key)).unwrap().remaining()
}

/// What is left of each policy.
pub(crate) fn left(told: &Decision) -> Vec<u64> {
    let policies = told.policies().iter();
    policies.map(|policy| policy.remaining()).collect()
}

/// An empty store for this many keys, and its clock, which shows [`START`].
pub(crate) fn store<A: LocalBuckets<K>, K>(
    max_keys: usize,
) -> (LocalStore<A, K, ManualClock>, ManualClock) {
    let clock = ManualClock::at(START);
    let store = LocalStore::builder()
        .clock(clock.clone())
        .max_keys(max_keys)
        .build();
    (store, clock)
}
