//! One part of a table: entries under one lock, and the hand that goes round to drop idle ones.

use hashbrown::HashTable;

use crate::{algorithm::Algorithm, clock::Timestamp, store::Verdict};

use super::gone::Gone;

/// How many calls for known keys go by between two slices.
const CALLS_PER_SLICE: u32 = 32;
/// A table this much larger than its entries is made smaller.
const SPARSE: usize = 8;
const SMALLEST: usize = 64;
/// A table that has lost this part of its room is made anew.
const WORN: usize = 32;

pub(super) struct Shard<K, S> {
    pub(super) entries: HashTable<(K, S)>,
    /// The bucket that the next slice begins with.
    hand: usize,
    calls: u32,
}

impl<K, S> Shard<K, S> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashTable::new(),
            hand: 0,
            calls: 0,
        }
    }

    /// Whether a call for a known key should visit a few buckets: mostly not.
    #[inline]
    pub(super) fn slice_is_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS_PER_SLICE)
    }

    /// Visits so many buckets and takes out the entries whose states said no more than fresh ones
    /// then; says how many.
    #[cold]
    pub(super) fn take_out_idle<A: Algorithm<State = S>>(
        &mut self,
        algorithm: &A,
        idle_since: Timestamp,
        buckets: usize,
        gone: &mut Gone<K, S>,
    ) -> usize {
        let before = self.entries.len();
        let all = self.entries.num_buckets();
        if before == 0 && all <= SMALLEST {
            return 0;
        }
        for _ in 0..buckets.min(all) {
            if let Ok(entry) = self.entries.get_bucket_entry(self.hand)
                && algorithm.is_fresh(&entry.get().1, idle_since)
            {
                gone.entry(entry.remove().0);
            }
            self.hand += 1;
            if self.hand >= all {
                self.hand = 0;
                if self.is_sparse() {
                    break;
                }
            }
        }
        before - self.entries.len()
    }

    /// Makes a table smaller that is much larger than its entries, if the hand has just gone round.
    #[inline]
    pub(super) fn shrink_if_sparse(&mut self, hash: impl Fn(&K) -> u64) {
        if self.hand == 0 && self.is_sparse() {
            let room = self.entries.len() * 2;
            self.entries.shrink_to(room, |(key, _)| hash(key));
        }
    }

    fn is_sparse(&self) -> bool {
        let all = self.entries.num_buckets();
        all > SMALLEST && self.entries.len() * SPARSE < all
    }
}

impl<K, S> Shard<K, S> {
    /// Makes room for one entry more. Where those that left took some of the room with them, it is
    /// won back by moving the others into a table of the same size; only a table that is full
    /// becomes larger.
    #[inline]
    pub(super) fn make_room(&mut self, hash: impl Fn(&K) -> u64) {
        if self.entries.len() == self.entries.capacity() {
            self.win_room(hash);
        }
    }

    #[cold]
    fn win_room(&mut self, hash: impl Fn(&K) -> u64) {
        let len = self.entries.len();
        let full = self.entries.num_buckets() / 8 * 7;
        if len + (full / WORN).max(1) > full {
            self.entries.reserve(1, |(key, _)| hash(key));
            return;
        }
        // A key's own `Hash` may panic: nothing is moved before.
        let hashes: Vec<u64> = self.entries.iter().map(|(key, _)| hash(key)).collect();
        let mut anew = HashTable::with_capacity(full);
        for (entry, hash) in self.entries.drain().zip(hashes) {
            anew.insert_unique(hash, entry, |_| unreachable!("it has room for all"));
        }
        self.entries = anew;
    }
}

/// Decides about a cost on one state, in place.
#[inline(always)]
pub(super) fn step<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    cost: u32,
    now: Timestamp,
) -> Verdict<A::Snapshot> {
    let (admitted, snapshot) = algorithm.step(state, cost, now);
    Verdict { admitted, snapshot }
}

/// What [`step`] would decide, without charging it.
pub(super) fn look<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    cost: u32,
    now: Timestamp,
) -> Verdict<A::Snapshot> {
    algorithm.mend(state, now);
    let admitted = algorithm.judge(state, cost, now);
    // What would be admitted was charged nothing, as by a cost of 0.
    let cost = if admitted { 0 } else { cost };
    let snapshot = algorithm.snapshot(state, cost, admitted, now);
    Verdict { admitted, snapshot }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind},
    };

    use super::*;

    fn mixed(key: &u64) -> u64 {
        ahash::RandomState::with_seeds(1, 2, 3, 4).hash_one(key)
    }

    /// Keys come and go until removed ones have left no room.
    fn worn() -> Shard<u64, ()> {
        let mut shard = Shard::new();
        for key in 0..3_000 {
            shard.make_room(mixed);
            shard
                .entries
                .insert_unique(mixed(&key), (key, ()), |(key, ())| mixed(key));
        }
        for key in 3_000.. {
            let left = key - 3_000;
            let entry = shard
                .entries
                .find_entry(mixed(&left), |(known, ())| *known == left);
            entry.expect("it was put in").remove();
            if shard.entries.len() == shard.entries.capacity() {
                return shard;
            }
            shard
                .entries
                .insert_unique(mixed(&key), (key, ()), |(key, ())| mixed(key));
        }
        unreachable!("the keys do not end")
    }

    #[test]
    fn room_that_was_lost_is_won_back_without_growing() {
        let mut shard = worn();
        let (keys, buckets) = (shard.entries.len(), shard.entries.num_buckets());
        shard.make_room(mixed);
        assert_eq!(
            (shard.entries.len(), shard.entries.num_buckets()),
            (keys, buckets)
        );
        assert!(shard.entries.capacity() >= keys + buckets / 8 * 7 / WORN);
        let known: Vec<u64> = shard.entries.iter().map(|(key, ())| *key).collect();
        for key in known {
            assert!(
                shard
                    .entries
                    .find(mixed(&key), |(known, ())| *known == key)
                    .is_some()
            );
        }
    }

    #[test]
    fn a_key_whose_hash_panics_loses_nothing() {
        let mut shard = worn();
        let (keys, hashed) = (shard.entries.len(), Cell::new(0));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            shard.make_room(|key| {
                hashed.set(hashed.get() + 1);
                assert!(hashed.get() < 100, "as a key's own `Hash` may");
                mixed(key)
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(shard.entries.len(), keys);
    }
}
