//! A `LocalStore` whose clock is set by hand.

use tollgate::{
    Timestamp,
    clock::ManualClock,
    store::{LocalBuckets, LocalStore},
};

/// The start of a minute.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_000_040_000_000);

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
