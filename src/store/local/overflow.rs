//! The overflow bucket, which new keys share while a table is full of live ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::{algorithm::KeyLimit, clock::Timestamp};

use super::deferred_drop::DeferredDrops;

/// How the clock is read where it need not be fast.
pub(super) type Now<'a> = &'a dyn Fn() -> Timestamp;

/// The bucket that new keys share while a table is full. It also says what a key without an entry
/// starts from.
pub(super) struct Overflow<S> {
    /// Whether the bucket owes anything; read before the lock is taken.
    is_charged: AtomicBool,
    bucket: Mutex<Option<S>>,
    decisions: AtomicU64,
    has_warned: AtomicBool,
}

impl<S> Overflow<S> {
    pub(super) fn new() -> Self {
        Self {
            is_charged: AtomicBool::new(false),
            bucket: Mutex::new(None),
            decisions: AtomicU64::new(0),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Locks the bucket if this cost would not change it: it is charged, and refuses the cost or
    /// has nothing to charge.
    #[inline]
    pub(super) fn lock_if_unchanged<A: KeyLimit<State = S>, K>(
        &self,
        limit: &A,
        cost: u32,
        now: Now<'_>,
        drops: &mut DeferredDrops<K, S>,
    ) -> Option<MappedMutexGuard<'_, S>> {
        let bucket = self.lock_if_charged(limit, now, drops)?;
        let admits = limit.judge(&bucket, cost, now());
        if !admits {
            self.decisions.fetch_add(1, Ordering::Relaxed);
        }
        (!admits || cost == 0).then_some(bucket)
    }

    /// Locks the bucket for a key that has no room.
    pub(super) fn lock_to_decide(&self, fresh: impl FnOnce() -> S) -> MappedMutexGuard<'_, S> {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        MutexGuard::map(self.lock(), |bucket| bucket.get_or_insert_with(fresh))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<S>> {
        self.bucket.lock()
    }

    /// To be called under the lock, once the bucket is charged.
    pub(super) fn is_charged_now(&self) {
        self.is_charged.store(true, Ordering::Release);
    }

    /// Whether the bucket owes anything.
    pub(super) fn is_charged(&self) -> bool {
        self.is_charged.load(Ordering::Acquire)
    }

    pub(super) fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    /// Tells the operator, once, that new keys share a bucket. To be called without a lock: a
    /// subscriber may be slow, or ask the same store.
    pub(super) fn warn_once_if_used(&self) {
        // Before the event: a subscriber that asks the same store comes here again.
        if self.decisions() > 0 && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "tollgate::local_store",
                "the store is full of live keys: new keys share one bucket; raise `max_keys` if they are real callers"
            );
        }
    }

    /// Locks the bucket if it owes anything. It is emptied if it does no more.
    #[inline]
    pub(super) fn lock_if_charged<A: KeyLimit<State = S>, K>(
        &self,
        limit: &A,
        now: Now<'_>,
        drops: &mut DeferredDrops<K, S>,
    ) -> Option<MappedMutexGuard<'_, S>> {
        if !self.is_charged() {
            return None;
        }
        let mut bucket = self.lock();
        let now = now();
        if let Some(state) = bucket.take_if(|state| limit.is_fresh(state, now)) {
            drops.keep(None, Some(state));
        }
        self.is_charged.store(bucket.is_some(), Ordering::Release);
        MutexGuard::try_map(bucket, Option::as_mut).ok()
    }
}
