//! The bucket that new keys share while a table is full of live ones.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{algorithm::Algorithm, clock::Timestamp, store::Verdict};

/// It also says what a key without an entry starts from.
pub(super) struct Overflow<S> {
    /// Whether the bucket owes anything; read before the lock is taken.
    is_charged: AtomicBool,
    bucket: Mutex<Option<S>>,
    decisions: AtomicU64,
    /// The latest instant at which any state of the table was dropped, in microseconds: a key that comes back after
    /// the clock has stepped back is as if last seen then, so that the step opens nothing.
    forgot_at: AtomicU64,
}

impl<S: Clone> Overflow<S> {
    /// The state that a key without an entry starts from: this bucket's while it is charged, since the key
    /// may be one of those who charged it.
    #[inline]
    pub(super) fn or_fresh<A>(&self, algorithm: &A, now: Timestamp) -> S
    where
        A: Algorithm<State = S>,
    {
        match self.is_charged.load(Ordering::Acquire) {
            true => self.charged(algorithm, now),
            false => None,
        }
        .unwrap_or_else(|| algorithm.fresh(self.forgot_at()))
    }

    #[cold]
    fn charged<A: Algorithm<State = S>>(&self, algorithm: &A, now: Timestamp) -> Option<S> {
        let mut bucket = self.lock();
        if bucket
            .take_if(|state| algorithm.is_fresh(state, now))
            .is_some()
        {
            self.forgot(now);
        }
        self.is_charged.store(bucket.is_some(), Ordering::Release);
        bucket.clone()
    }

    /// Decides for a key that has no room.
    pub(super) fn decide<A: Algorithm<State = S>>(
        &self,
        algorithm: &A,
        cost: u32,
        now: Timestamp,
    ) -> Verdict<A::Snapshot> {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        let mut bucket = self.lock();
        let state = bucket.get_or_insert_with(|| algorithm.fresh(self.forgot_at()));
        let verdict = super::shard::step(algorithm, state, cost, now);
        if !self.is_charged.swap(true, Ordering::Release) {
            tracing::warn!(
                target: "tollgate::local_store",
                "the store is full of live keys: new keys share one bucket; raise `max_keys` if they are real callers"
            );
        }
        verdict
    }

    pub(super) fn withdraw<A: Algorithm<State = S>>(
        &self,
        algorithm: &A,
        admission: &A::Snapshot,
        cost: u32,
        now: Timestamp,
    ) {
        if let Some(state) = self.lock().as_mut() {
            algorithm.withdraw(state, admission, cost, now);
        }
    }
}

impl<S> Overflow<S> {
    pub(super) fn new() -> Self {
        Self {
            is_charged: AtomicBool::new(false),
            bucket: Mutex::new(None),
            decisions: AtomicU64::new(0),
            forgot_at: AtomicU64::new(0),
        }
    }

    /// A new key was refused: because of what this bucket owes, if it owes anything.
    pub(super) fn count_if_charged(&self) {
        if self.is_charged.load(Ordering::Relaxed) {
            self.decisions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Some state was dropped now.
    pub(super) fn forgot(&self, now: Timestamp) {
        self.forgot_at.fetch_max(now.as_micros(), Ordering::Relaxed);
    }

    fn forgot_at(&self) -> Timestamp {
        Timestamp::from_micros(self.forgot_at.load(Ordering::Relaxed))
    }

    pub(super) fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<S>> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
