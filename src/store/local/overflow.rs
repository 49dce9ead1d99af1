//! The bucket that new keys share while a table is full of live ones.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{algorithm::Algorithm, clock::Timestamp};

use super::gone::Gone;

/// It also says what a key without an entry starts from.
pub(super) struct Overflow<S> {
    /// Whether the bucket owes anything; read before the lock is taken.
    is_charged: AtomicBool,
    bucket: Mutex<Option<S>>,
    decisions: AtomicU64,
    warned: AtomicBool,
    /// The latest instant at which any state of the table was dropped, in microseconds: a key that
    /// comes back after the clock has stepped back is as if last seen then, so that the step
    /// opens nothing.
    forgot_at: AtomicU64,
    /// How long a state has to be left alone before it may be dropped by numbers that it may not
    /// be counted under; none while the policy has had the same numbers all along.
    matter_for: AtomicU64,
}

impl<S> Overflow<S> {
    /// Calls the closure with this bucket's state if a cost whose key has no entry leaves it as it
    /// is: it is charged, and refuses the cost or has nothing to charge. So a refusal, which a
    /// flood consists of, looks for no place.
    #[inline]
    pub(super) fn if_it_stays<A, K, T, F>(
        &self,
        algorithm: &A,
        (cost, now): (u32, Timestamp),
        gone: &mut Gone<K, S>,
        then: F,
    ) -> Result<T, F>
    where
        A: Algorithm<State = S>,
        F: FnOnce(&mut S) -> T,
    {
        if !self.is_charged() {
            return Err(then);
        }
        let mut bucket = self.charged(algorithm, now, gone);
        let Some(state) = &mut *bucket else {
            return Err(then);
        };
        algorithm.mend(state, now);
        let admitted = algorithm.judge(state, cost, now);
        if admitted && cost > 0 {
            return Err(then);
        }
        if !admitted {
            self.decisions.fetch_add(1, Ordering::Relaxed);
        }
        Ok(then(state))
    }

    /// The state that a key begins with which gets an entry: what this bucket owes while it is
    /// charged, since the key may be one of those who charged it.
    #[inline]
    pub(super) fn start<A: Algorithm<State = S>, K>(
        &self,
        algorithm: &A,
        now: Timestamp,
        gone: &mut Gone<K, S>,
    ) -> S {
        if self.is_charged()
            && let Some(state) = &mut *self.charged(algorithm, now, gone)
        {
            algorithm.mend(state, now);
            return algorithm.inherit(state, now);
        }
        self.fresh(algorithm)
    }

    /// Calls the closure with what a key without an entry is judged by: this bucket's state while
    /// it is charged, or a fresh one.
    pub(super) fn look<A: Algorithm<State = S>, K, T>(
        &self,
        (algorithm, now): (&A, Timestamp),
        gone: &mut Gone<K, S>,
        then: impl FnOnce(&S) -> T,
    ) -> T {
        if self.is_charged()
            && let Some(state) = &*self.charged(algorithm, now, gone)
        {
            return then(state);
        }
        then(&self.fresh(algorithm))
    }

    /// The state of a key that was never charged.
    #[inline]
    pub(super) fn fresh<A: Algorithm<State = S>>(&self, algorithm: &A) -> S {
        algorithm.fresh(self.forgot_at())
    }

    /// The bucket, empty if it owes nothing.
    #[cold]
    fn charged<A: Algorithm<State = S>, K>(
        &self,
        algorithm: &A,
        now: Timestamp,
        gone: &mut Gone<K, S>,
    ) -> MutexGuard<'_, Option<S>> {
        let mut bucket = self.lock();
        let idle_since = self.idle_since(now);
        if let Some(state) = bucket.take_if(|state| algorithm.is_fresh(state, idle_since)) {
            gone.state(state);
            self.forgot(now);
        }
        self.is_charged.store(bucket.is_some(), Ordering::Release);
        bucket
    }

    /// Calls the closure with the state of this bucket, for a key that has no room; the closure
    /// says whether it was charged.
    pub(super) fn with_state<A: Algorithm<State = S>, T>(
        &self,
        algorithm: &A,
        then: impl FnOnce(&mut S) -> (bool, T),
    ) -> T {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        let mut bucket = self.lock();
        if let Some(state) = &mut *bucket {
            let (is_charged, done) = then(state);
            if is_charged {
                self.is_charged.store(true, Ordering::Release);
            }
            return done;
        }
        let mut state = self.fresh(algorithm);
        let (is_charged, done) = then(&mut state);
        if is_charged {
            *bucket = Some(state);
            self.is_charged.store(true, Ordering::Release);
        }
        done
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
            warned: AtomicBool::new(false),
            forgot_at: AtomicU64::new(0),
            matter_for: AtomicU64::new(0),
        }
    }

    /// Tells the operator, once, that new keys share a bucket. To be called without a lock: a
    /// subscriber may be slow, or ask the same store; then it comes here again while it is
    /// being told.
    #[inline]
    pub(super) fn warn_once(&self) {
        if !self.warned.load(Ordering::Relaxed) {
            self.warn();
        }
    }

    #[cold]
    fn warn(&self) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "tollgate::local_store",
                "the store is full of live keys: new keys share one bucket; raise `max_keys` if they are real callers"
            );
        }
    }

    /// Whether the bucket owes anything.
    pub(super) fn is_charged(&self) -> bool {
        self.is_charged.load(Ordering::Acquire)
    }

    /// Some state was dropped now.
    pub(super) fn forgot(&self, now: Timestamp) {
        self.forgot_at.fetch_max(now.as_micros(), Ordering::Relaxed);
    }

    /// The policy has other numbers too, under which a state matters for so long.
    #[inline]
    pub(super) fn matters_for(&self, micros: u64) {
        // Mostly it is known already, and then nobody waits for a word that nobody writes.
        if self.matter_for.load(Ordering::Acquire) < micros {
            self.matter_for.fetch_max(micros, Ordering::Release);
        }
    }

    /// A state that was as good as fresh at this instant, and not charged since, may be dropped.
    pub(super) fn idle_since(&self, now: Timestamp) -> Timestamp {
        let micros = self.matter_for.load(Ordering::Acquire);
        Timestamp::from_micros(now.as_micros().saturating_sub(micros))
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
