//! The overflow bucket, which new keys share while a table is full of live ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::algorithm::Algorithm;

use super::{
    call::{Call, SettledHold, fresh_state},
    deferred_drop::DeferredDrops,
};

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

    /// Runs `decide` if this cost would not change the bucket: it is charged, and refuses the cost
    /// or has nothing to charge. So a refusal, which a flood consists of, looks for no room.
    #[inline]
    pub(super) fn with_unchanged<A, K, T, F>(
        &self,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
        decide: F,
    ) -> Result<T, F>
    where
        A: Algorithm<State = S>,
        F: FnOnce(&mut S) -> T,
    {
        if !self.is_charged() {
            return Err(decide);
        }
        let mut bucket = self.lock_without_idle(call, drops);
        let Some(state) = &mut *bucket else {
            return Err(decide);
        };
        let now = call.now();
        let admitted = call.algorithm.judge(state, call.cost, now);
        if admitted && call.cost > 0 {
            return Err(decide);
        }
        if !admitted {
            self.decisions.fetch_add(1, Ordering::Relaxed);
        }
        Ok(decide(state))
    }

    /// The first state of a key that gets an entry: what this bucket owes while it is charged,
    /// since the key may have been charged here; otherwise the fresh one.
    #[inline]
    pub(super) fn initial_state<A: Algorithm<State = S>, K>(
        &self,
        fresh: S,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
    ) -> S {
        if self.is_charged()
            && let Some(state) = &mut *self.lock_without_idle(call, drops)
        {
            drops.state(fresh);
            let now = call.now();
            return call.algorithm.inherit(state, now);
        }
        fresh
    }

    /// Calls the closure with what a key without an entry is judged by: this bucket's state while
    /// it is charged, or a fresh one.
    pub(super) fn peek<A: Algorithm<State = S>, K, T>(
        &self,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
        look: impl FnOnce(&S) -> T,
    ) -> T {
        if self.is_charged()
            && let Some(state) = &*self.lock_without_idle(call, drops)
        {
            return look(state);
        }
        let fresh = fresh_state(call.algorithm);
        let seen = look(&fresh);
        drops.state(fresh);
        seen
    }

    /// Calls the closure with the state of this bucket, which is the fresh one if there is none,
    /// for a key that has no room; the closure says whether it charged it.
    pub(super) fn with_state<K, T>(
        &self,
        mut fresh: S,
        drops: &mut DeferredDrops<K, S>,
        decide: impl FnOnce(&mut S) -> (bool, T),
    ) -> T {
        self.decisions.fetch_add(1, Ordering::Relaxed);
        let mut bucket = self.bucket.lock();
        let (is_charged, done) = decide(bucket.as_mut().unwrap_or(&mut fresh));
        self.is_charged.fetch_or(is_charged, Ordering::Release);
        match &*bucket {
            None if is_charged => *bucket = Some(fresh),
            _ => drops.state(fresh),
        }
        done
    }

    pub(super) fn withdraw<A: Algorithm<State = S>>(
        &self,
        admission: &A::Snapshot,
        call: Call<'_, A>,
    ) {
        if let Some(state) = self.bucket.lock().as_mut() {
            let now = call.now();
            call.algorithm.withdraw(state, admission, call.cost, now);
        }
    }

    /// Settles a hold that lies in this bucket; says whether it does.
    pub(super) fn settle<A: Algorithm<State = S>>(
        &self,
        hold: SettledHold<'_, A>,
        call: Call<'_, A>,
    ) -> bool {
        if !self.is_charged() {
            return false;
        }
        match self.bucket.lock().as_mut() {
            Some(state) => {
                let is_held = call.algorithm.holds(state, hold.admission);
                if is_held {
                    call.settle_up_to_capacity(state, hold);
                }
                is_held
            }
            None => false,
        }
    }

    /// Gives back a place that lies in this bucket.
    pub(super) fn end<A: Algorithm<State = S>>(&self, admission: &A::Snapshot, call: Call<'_, A>) {
        if let Some(state) = self.bucket.lock().as_mut() {
            call.end(state, admission);
        }
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
    #[inline]
    pub(super) fn warn_once_if_used(&self) {
        if self.decisions() > 0 && !self.has_warned.load(Ordering::Relaxed) {
            self.warn();
        }
    }

    #[cold]
    fn warn(&self) {
        // Before the event: a subscriber that asks the same store comes here again.
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "tollgate::local_store",
                "the store is full of live keys: new keys share one bucket; raise `max_keys` if they are real callers"
            );
        }
    }

    /// Locks the bucket, which is emptied if it owes nothing any more.
    #[cold]
    fn lock_without_idle<A: Algorithm<State = S>, K>(
        &self,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
    ) -> MutexGuard<'_, Option<S>> {
        let mut bucket = self.bucket.lock();
        let now = call.now();
        if let Some(state) = bucket.take_if(|state| call.algorithm.is_fresh(state, now)) {
            drops.state(state);
        }
        self.is_charged.store(bucket.is_some(), Ordering::Release);
        bucket
    }
}
