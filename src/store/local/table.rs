//! The buckets of one policy, in shards.

use std::{
    borrow::Borrow,
    mem::replace,
    sync::atomic::{AtomicUsize, Ordering},
};

use ahash::RandomState;

use crate::{
    algorithm::{Algorithm, ConfigId},
    clock::Timestamp,
    key::Key,
    store::{AsKey, Verdict},
};

use super::{
    gone::{Gone, is_dropping},
    lock::{Guard, Lock},
    overflow::Overflow,
    shard::{Shard, look, step},
};

/// A full shard has about so many keys: so few that growing one is short, and nearly as many as a
/// table has room for before it doubles.
const KEYS_PER_SHARD: usize = 3_200;
const FEWEST_SHARDS: usize = 32;
const MOST_SHARDS: usize = 4_096;
/// How many buckets are visited once in a while when keys are known.
const SLICE_OF_A_KNOWN_KEY: usize = 8;
/// How many buckets are visited when a new key gets an entry: more than the one it takes.
const SLICE_OF_A_NEW_KEY: usize = 4;
/// How many buckets a new key looks at in search of room when the table is full.
const SLICE_OF_A_FULL_TABLE: usize = 32;

pub(super) struct Table<K, S> {
    hasher: RandomState,
    shards: Box<[Lock<Shard<K, S>>]>,
    max_keys: usize,
    keys: AtomicUsize,
    overflow: Overflow<S>,
    /// The shard whose turn it is to be searched for idle keys.
    next: AtomicUsize,
}

/// A key without an entry: its hash, the shard that it would be in, and when it was asked about.
pub(super) struct Unknown<'a, K, S> {
    shard: Guard<'a, Shard<K, S>>,
    hash: u64,
    now: Timestamp,
}

/// A place for a key, given back if a panic in the key's own `Clone` or `Hash` keeps the key from
/// taking it.
struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K, S> Table<K, S> {
    pub(super) fn new(max_keys: usize) -> Self {
        let shards = (max_keys.div_ceil(KEYS_PER_SHARD)).clamp(FEWEST_SHARDS, MOST_SHARDS);
        Self {
            hasher: RandomState::new(),
            shards: (0..shards).map(|_| Lock::new(Shard::new())).collect(),
            max_keys,
            keys: AtomicUsize::new(0),
            overflow: Overflow::new(),
            next: AtomicUsize::new(0),
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn overflow_decisions(&self) -> u64 {
        self.overflow.decisions()
    }

    /// The policy counts under these numbers too.
    pub(super) fn counts_under(&self, numbers: ConfigId) {
        let micros = numbers.retention().as_micros();
        self.overflow
            .matters_for(u64::try_from(micros).unwrap_or(u64::MAX));
    }

    #[inline]
    fn lock(&self, hash: u64) -> Guard<'_, Shard<K, S>> {
        // The table inside a shard takes the low bits for its buckets and the highest seven for its
        // tags.
        let of_the_rest = u64::from((hash >> 25) as u32);
        let shard = (of_the_rest * self.shards.len() as u64) >> 32;
        self.shards[shard as usize].lock()
    }

    /// The next shard in turn, if nobody holds it: waiting for it while another is held could wait
    /// for ever.
    fn lock_next(&self) -> Option<Guard<'_, Shard<K, S>>> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        self.shards[next].try_lock()
    }

    /// Counts one more key, if there is room.
    fn take_place(&self) -> Option<Place<'_>> {
        let place = Place(&self.keys);
        (self.keys.fetch_add(1, Ordering::Relaxed) < self.max_keys).then_some(place)
    }
}

impl<K: Key, S> Table<K, S> {
    #[cfg(test)]
    fn decide<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
        now: Timestamp,
    ) -> Verdict<A::Snapshot> {
        self.decide_known(algorithm, key, cost, || now)
            .unwrap_or_else(|unknown| self.decide_new(unknown, algorithm, key, cost))
    }

    /// Decides for a key with an entry; one without is for [`decide_new`](Self::decide_new).
    ///
    /// They are two so that this verdict can stay in registers. The clock is read right before the
    /// lock is taken: what was written before, a request say, leaves the processor meanwhile,
    /// as it must before a lock is held.
    #[inline(always)]
    pub(super) fn decide_known<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
        clock: impl FnOnce() -> Timestamp,
    ) -> Result<Verdict<A::Snapshot>, Unknown<'_, K, S>> {
        let hash = self.hash(key);
        let now = clock();
        let mut shard = self.lock(hash);
        let Some((_, state)) = shard.entries.find_mut(hash, is(key)) else {
            return Err(Unknown { shard, hash, now });
        };
        let verdict = step(algorithm, state, cost, now);
        let is_due = shard.slice_is_due();
        drop(shard);
        if is_due {
            self.forget_idle_in_turn(algorithm, now);
        }
        Ok(verdict)
    }

    /// Decides for a key without an entry; it gets one if it is charged and there is room.
    #[inline(never)]
    pub(super) fn decide_new<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        unknown: Unknown<'_, K, S>,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Verdict<A::Snapshot> {
        let mut gone = Gone::new();
        let Unknown {
            mut shard,
            hash,
            now,
        } = unknown;
        let judge = |state: &mut S| look(algorithm, state, cost, now);
        let stays = (cost, now);
        let judge = match self
            .overflow
            .if_it_stays(algorithm, stays, &mut gone, judge)
        {
            Ok(verdict) => return verdict,
            Err(judge) => judge,
        };
        // Nothing to charge, or more than ever fits.
        let verdict = judge(&mut self.overflow.fresh(algorithm));
        if !verdict.admitted || cost == 0 {
            return verdict;
        }
        let of = (algorithm, now);
        let Some(place) = self.place_for_a_new_key(&mut shard, of, &mut gone) else {
            let verdict = self.overflow.with_state(algorithm, |state| {
                let verdict = step(algorithm, state, cost, now);
                (verdict.admitted, verdict)
            });
            drop(shard);
            self.overflow.warn_once();
            return verdict;
        };
        // No lock is held while a key is copied: its own `Clone` may take its time, panic, or ask
        // this store.
        drop(shard);
        let key = key.to_owned();
        let mut shard = self.lock(hash);
        if let Some((_, state)) = shard.entries.find_mut(hash, |(known, _)| *known == key) {
            // It came meanwhile.
            return step(algorithm, state, cost, now);
        }
        shard.make_room(|key| self.hash(key));
        let mut state = self.overflow.start(algorithm, now, &mut gone);
        let verdict = step(algorithm, &mut state, cost, now);
        if verdict.admitted {
            let hash_of = |(key, _): &(K, S)| self.hash(key);
            shard.entries.insert_unique(hash, (key, state), hash_of);
            place.keep();
        } else {
            gone.state(state);
        }
        verdict
    }

    pub(super) fn peek<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
        now: Timestamp,
    ) -> Verdict<A::Snapshot> {
        let mut gone = Gone::new();
        self.with_state_as_it_is((algorithm, now), key, &mut gone, |state| {
            let (admitted, snapshot) = algorithm.look(state, cost, now);
            Verdict { admitted, snapshot }
        })
    }

    pub(super) fn refund<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
        now: Timestamp,
    ) {
        let hash = self.hash(key);
        if let Some((_, state)) = self.lock(hash).entries.find_mut(hash, is(key)) {
            algorithm.mend(state, now);
            algorithm.refund(state, cost, now);
        }
    }

    /// Makes a key as good as one that was never seen. While the overflow bucket is charged it
    /// keeps its entry: without one it would start from what that bucket owes.
    pub(super) fn reset<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        gone: &mut Gone<K, S>,
    ) {
        let hash = self.hash(key);
        let mut shard = self.lock(hash);
        if self.overflow.is_charged() {
            if let Some((_, state)) = shard.entries.find_mut(hash, is(key)) {
                gone.state(replace(state, self.overflow.fresh(algorithm)));
            }
        } else if let Ok(entry) = shard.entries.find_entry(hash, is(key)) {
            gone.entry(entry.remove().0);
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn withdraw<A: Algorithm<State = S>>(
        &self,
        algorithm: &A,
        key: &K,
        admission: &A::Snapshot,
        cost: u32,
        now: Timestamp,
    ) {
        let hash = self.hash(key);
        match self.lock(hash).entries.find_mut(hash, is(key)) {
            Some((_, state)) => algorithm.withdraw(state, admission, cost, now),
            None => self.overflow.withdraw(algorithm, admission, cost, now),
        }
    }

    #[inline(always)]
    fn hash<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> u64 {
        match size_of::<K>() {
            // There is only one.
            0 => 0,
            _ => self.hasher.hash_one(key),
        }
    }

    fn forget_idle<A: Algorithm<State = S>>(
        &self,
        shard: &mut Shard<K, S>,
        (algorithm, now): (&A, Timestamp),
        buckets: usize,
        gone: &mut Gone<K, S>,
    ) -> usize {
        if is_dropping() {
            return 0;
        }
        let idle_since = self.overflow.idle_since(now);
        let left = shard.take_out_idle(algorithm, idle_since, buckets, gone);
        if left > 0 {
            self.keys.fetch_sub(left, Ordering::Relaxed);
            self.overflow.forgot(now);
        }
        // A key's own `Hash` may panic: those that have left are no longer counted.
        shard.shrink_if_sparse(|key| self.hash(key));
        left
    }

    /// Visits a few buckets of the next shard in turn, so that idle keys leave wherever the calls
    /// go.
    #[cold]
    fn forget_idle_in_turn<A: Algorithm<State = S>>(&self, algorithm: &A, now: Timestamp) {
        let mut gone = Gone::new();
        if let Some(mut shard) = self.lock_next() {
            let of = (algorithm, now);
            self.forget_idle(&mut shard, of, SLICE_OF_A_KNOWN_KEY, &mut gone);
        }
    }

    /// Counts one more key, if there is room or some can be made.
    fn place_for_a_new_key<A: Algorithm<State = S>>(
        &self,
        shard: &mut Shard<K, S>,
        of: (&A, Timestamp),
        gone: &mut Gone<K, S>,
    ) -> Option<Place<'_>> {
        self.forget_idle(shard, of, SLICE_OF_A_NEW_KEY, gone);
        let place = self.take_place();
        match place {
            None if self.make_room(shard, of, gone) => self.take_place(),
            place => place,
        }
    }

    /// Looks for idle keys in this shard, and then in others that nobody holds; says whether any
    /// went.
    #[cold]
    fn make_room<A: Algorithm<State = S>>(
        &self,
        shard: &mut Shard<K, S>,
        of: (&A, Timestamp),
        gone: &mut Gone<K, S>,
    ) -> bool {
        if self.forget_idle(shard, of, SLICE_OF_A_FULL_TABLE, gone) > 0 {
            return true;
        }
        (0..SLICE_OF_A_FULL_TABLE).any(|_| {
            self.lock_next().is_some_and(|mut other| {
                self.forget_idle(&mut other, of, SLICE_OF_A_NEW_KEY, gone) > 0
            })
        })
    }
}

#[inline]
fn is<K: Key, S, Q: AsKey<K> + ?Sized>(key: &Q) -> impl Fn(&(K, S)) -> bool + '_ {
    move |(known, _)| same(key, known)
}

#[inline]
fn same<Q: ToOwned + Eq + ?Sized>(key: &Q, known: &Q::Owned) -> bool {
    let known: &Q = known.borrow();
    known == key
}

mod together;

#[cfg(test)]
mod tests;
