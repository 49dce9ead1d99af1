//! The lock of a shard.

use parking_lot::{Mutex, MutexGuard};

/// A mutex on a cache line of its own, so that threads at two shards don't take one line from each
/// other.
///
/// A panic in a key's own `Eq` or `Hash` lets go of it: a shard is never half written there.
#[repr(align(64))]
pub(super) struct Lock<T>(Mutex<T>);

/// What a [`Lock`] is about, while it is held.
pub(super) type Guard<'a, T> = MutexGuard<'a, T>;

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    pub(super) fn lock(&self) -> Guard<'_, T> {
        self.0.lock()
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock()
    }
}
