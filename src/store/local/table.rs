//! The buckets of one policy: what is done with a key's state.

use std::{
    borrow::{Borrow, Cow},
    mem::replace,
};

use parking_lot::MutexGuard;

use crate::{
    algorithm::Algorithm,
    clock::{Clock, Timestamp},
    key::Key,
    store::{AsKey, Verdict},
};

use super::{
    call::{Call, fresh_state},
    deferred_drop::DeferredDrops,
    overflow::Overflow,
    shards::{Reservation, Shard, Shards},
};

pub(super) struct Table<K, S> {
    pub(super) shards: Shards<K, S>,
    pub(super) overflow: Overflow<S>,
}

/// A key without an entry: the shard that it would be in, its hash, and when the shard was looked
/// at.
pub(super) struct Unknown<'a, K, S> {
    pub(super) shard: MutexGuard<'a, Shard<K, S>>,
    pub(super) hash: u64,
    pub(super) now: Timestamp,
}

/// A key that is asked about: a borrowed one is copied only if it gets an entry. None if it has one
/// now, or if there is no key.
pub(super) type AskedKey<'a, Q> = Option<Cow<'a, Q>>;

impl<K, S> Table<K, S> {
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            shards: Shards::new(max_keys),
            overflow: Overflow::new(),
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.shards.keys()
    }

    pub(super) fn overflow_decisions(&self) -> u64 {
        self.overflow.decisions()
    }
}

impl<K: Key, S> Table<K, S> {
    /// Decides about a key that has an entry; one without is for [`decide_new`](Self::decide_new).
    ///
    /// They are two so that this verdict can stay in registers: as one function that answers for
    /// both, a decision takes a tenth longer (bench `decision`).
    ///
    /// Inlined always, as is what calls it: else the verdict goes through memory, written in halves
    /// and read in whole, for which the processor waits. It gives a twelfth of the instructions of
    /// a check (bench `instructions`).
    #[inline(always)]
    pub(super) fn decide_known<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
        clock: &impl Clock,
    ) -> Result<Verdict<A::Snapshot>, Unknown<'_, K, S>> {
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash);
        // Under the lock: a thread that waits for it with a time would bring an earlier one than
        // the state's.
        let now = clock.now();
        let read = move |state: &S| algorithm.is_fresh(state, now);
        let Some(state) = shard.entries.find_mut_to_decide(hash, is(key), read) else {
            return Err(Unknown { shard, hash, now });
        };
        let (admitted, snapshot) = algorithm.step(state, cost, now);
        let verdict = Verdict { admitted, snapshot };
        if shard.sweep.is_due() {
            drop(shard);
            self.shards.sweep_next(algorithm, now);
        }
        Ok(verdict)
    }

    /// Decides about a key that has an entry, as [`decide_known`](Self::decide_known), by what the
    /// closure does.
    ///
    /// `decide_known` does not call this one: through a closure a check takes 50 instructions more
    /// (bench `instructions`).
    #[cfg(feature = "rules")]
    #[inline(always)]
    pub(super) fn step_known<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized, T>(
        &self,
        algorithm: &A,
        key: &Q,
        clock: &impl Clock,
        step: impl FnOnce(Timestamp, &mut S) -> T,
    ) -> Result<T, Unknown<'_, K, S>> {
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash);
        let now = clock.now();
        let read = move |state: &S| algorithm.is_fresh(state, now);
        let Some(state) = shard.entries.find_mut_to_decide(hash, is(key), read) else {
            return Err(Unknown { shard, hash, now });
        };
        let done = step(now, state);
        if shard.sweep.is_due() {
            drop(shard);
            self.shards.sweep_next(algorithm, now);
        }
        Ok(done)
    }

    /// Decides about a key that has no entry; it gets one if it is charged and there is room.
    #[cold]
    pub(super) fn decide_new<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        unknown: Unknown<'_, K, S>,
        algorithm: &A,
        key: &Q,
        (cost, clock): (u32, &impl Clock),
    ) -> Verdict<A::Snapshot> {
        let read_clock = || clock.now();
        let call = Call::new(algorithm, cost, &read_clock);
        let mut drops = DeferredDrops::new();
        let key = &mut Some(Cow::Borrowed(key));
        let verdict = self.with_new_key(unknown, key, call, &mut drops, |state| {
            let (admitted, snapshot) = algorithm.step(state, cost, clock.now());
            (admitted, Verdict { admitted, snapshot })
        });
        self.overflow.warn_once_if_used();
        verdict
    }

    /// Calls the closure with the state of a key, under its lock, or with none if there is no key;
    /// the closure says whether it charged it. Afterwards, once no lock is held any more,
    /// [`after_a_decision`](Self::after_a_decision) is to be called with the flag that is
    /// returned, and `drops` and what is left of the key are to be dropped.
    pub(super) fn with_state<A: Algorithm<State = S>, T>(
        &self,
        key: &mut AskedKey<'_, K>,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
        decide: impl FnOnce(Option<&mut S>) -> (bool, T),
    ) -> (T, bool) {
        let Some(known) = key.as_deref() else {
            return (decide(None).1, false);
        };
        let hash = self.shards.hash(known);
        let mut shard = self.shards.lock(hash);
        if let Some(state) = shard.entries.find_mut(hash, is(known)) {
            let (_, done) = decide(Some(state));
            return (done, shard.sweep.is_due());
        }
        let unknown = Unknown {
            shard,
            hash,
            now: call.now(),
        };
        let done = self.with_new_key(unknown, key, call, drops, |state| decide(Some(state)));
        (done, false)
    }

    /// Calls the closure with the state that a key without an entry begins with. It gets an entry
    /// if it is charged and there is room; if there is none, the state is the overflow
    /// bucket's.
    fn with_new_key<'a, A: Algorithm<State = S>, Q: AsKey<K> + ?Sized, T>(
        &'a self,
        mut unknown: Unknown<'a, K, S>,
        key: &mut AskedKey<'_, Q>,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
        decide: impl FnOnce(&mut S) -> (bool, T),
    ) -> T {
        let decide = match self.overflow.with_unchanged(call, drops, decide) {
            Ok((_, done)) => return done,
            Err(decide) => decide,
        };
        let (mut fresh, now) = (fresh_state(call.algorithm), unknown.now);
        if call.cost == 0 || !call.algorithm.judge(&fresh, call.cost, now) {
            let (_, done) = decide(&mut fresh);
            drops.state(fresh);
            return done;
        }
        let Some(reservation) =
            self.shards
                .reserve(&mut unknown.shard, (call.algorithm, now), drops)
        else {
            return self.overflow.with_state(fresh, drops, decide);
        };
        self.with_new_entry((unknown, reservation), key, (fresh, call), drops, decide)
    }

    /// Calls the closure with the first state of a key for which a place is reserved. It gets an
    /// entry if it is charged.
    ///
    /// The key's own code, which may panic, runs before the closure, which may charge other keys
    /// too.
    pub(super) fn with_new_entry<'a, A: Algorithm<State = S>, Q: AsKey<K> + ?Sized, T>(
        &'a self,
        (unknown, reservation): (Unknown<'a, K, S>, Reservation<'_>),
        key: &mut AskedKey<'_, Q>,
        (fresh, call): (S, Call<'_, A>),
        drops: &mut DeferredDrops<K, S>,
        decide: impl FnOnce(&mut S) -> (bool, T),
    ) -> T {
        let Unknown {
            mut shard, hash, ..
        } = unknown;
        if let Some(Cow::Borrowed(borrowed)) = *key {
            // No lock is held while a key is copied: its own `Clone` may take its time, panic, or
            // ask this store.
            drop(shard);
            *key = Some(Cow::Owned(borrowed.to_owned()));
            shard = self.shards.lock(hash);
            if let Some(state) = shard.entries.find_mut(hash, is(borrowed)) {
                // Another call has inserted the key meanwhile.
                return decide(state).1;
            }
        }
        shard.entries.make_room(hash, |key| self.shards.hash(key));
        let mut state = self.overflow.initial_state(fresh, call, drops);
        let (is_charged, done) = decide(&mut state);
        match key.take_if(|_| is_charged) {
            Some(key) => {
                shard.entries.insert(hash, key.into_owned(), state);
                reservation.keep();
            }
            None => drops.state(state),
        }
        done
    }

    /// Calls the closure with what a key is judged by, under its lock: its state, or what a key
    /// without an entry would begin with.
    pub(super) fn with_unchanged_state<A, Q, T>(
        &self,
        key: &Q,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
        look: impl FnOnce(&S) -> T,
    ) -> T
    where
        A: Algorithm<State = S>,
        Q: AsKey<K> + ?Sized,
    {
        let hash = self.shards.hash(key);
        match self.shards.lock(hash).entries.find(hash, is(key)) {
            Some(state) => look(state),
            None => self.overflow.peek(call, drops, look),
        }
    }

    /// What is left to do after a decision, without a lock: a sweep, if one is due at that instant,
    /// and a warning, if new keys share a bucket.
    pub(super) fn after_a_decision<A: Algorithm<State = S>>(
        &self,
        algorithm: &A,
        sweep_is_due_at: Option<Timestamp>,
    ) {
        if let Some(now) = sweep_is_due_at {
            self.shards.sweep_next(algorithm, now);
        }
        self.overflow.warn_once_if_used();
    }

    pub(super) fn peek<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        call: Call<'_, A>,
    ) -> Verdict<A::Snapshot> {
        let mut drops = DeferredDrops::new();
        self.with_unchanged_state(key, call, &mut drops, |state| {
            let (admitted, snapshot) = call.algorithm.look(state, call.cost, call.now());
            Verdict { admitted, snapshot }
        })
    }

    pub(super) fn refund<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        call: Call<'_, A>,
    ) {
        let hash = self.shards.hash(key);
        if let Some(state) = self.shards.lock(hash).entries.find_mut(hash, is(key)) {
            call.refund(state);
        }
    }

    /// Makes a key as good as one that was never seen. While the overflow bucket is charged it
    /// keeps its entry: without one it would start from what that bucket owes.
    pub(super) fn reset<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        algorithm: &A,
        drops: &mut DeferredDrops<K, S>,
    ) {
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash);
        if self.overflow.is_charged() {
            if let Some(state) = shard.entries.find_mut(hash, is(key)) {
                drops.state(replace(state, fresh_state(algorithm)));
            }
        } else if let Some(entry) = shard.entries.remove(hash, is(key)) {
            drops.entry(entry);
            self.shards.uncount(1);
        }
    }

    /// Takes an admission back, if the algorithm can.
    pub(super) fn withdraw<A: Algorithm<State = S>>(
        &self,
        key: &K,
        admission: &A::Snapshot,
        call: Call<'_, A>,
    ) {
        let hash = self.shards.hash(key);
        if let Some(state) = self.shards.lock(hash).entries.find_mut(hash, is(key)) {
            let holds = A::SETTLES || A::IN_FLIGHT;
            if !holds || call.algorithm.holds(state, admission) {
                let now = call.now();
                return (call.algorithm).withdraw(state, admission, call.cost, now);
            }
        }
        self.overflow.withdraw(admission, call);
    }
}

#[inline]
pub(super) fn is<Q: ToOwned + Eq + ?Sized>(key: &Q) -> impl Fn(&Q::Owned) -> bool + '_ {
    move |known| {
        let known: &Q = known.borrow();
        known == key
    }
}
