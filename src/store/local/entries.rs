//! The entries of one shard, and how their room grows and shrinks.

use std::hint::black_box;

use hashbrown::{HashTable, hash_table::OccupiedEntry};

/// Room of fewer slots is never given back.
const MIN_SLOTS: usize = 64;
/// Room this much larger than its entries is made smaller.
const SPARSE: usize = 8;
/// A table of so many slots, and those of the other shards, are more than the caches hold.
const LARGE: usize = 2_048;
/// A table that has lost this part of its room to removed entries is built anew.
const WORN: usize = 32;

/// Keys with their states. A *slot* has room for one: `hashbrown` calls it a bucket, which is a
/// caller's limit here.
pub(super) struct Entries<K, S>(HashTable<(K, S)>);

/// How many entries this many slots have room for. (Fewer than eight have room for some too, but
/// those are never worn.)
fn capacity(slots: usize) -> usize {
    slots / 8 * 7
}

/// What is in the slot where the table looks first for a key with this hash. Most keys are in the
/// first slot or near it. If `hashbrown` began elsewhere, only time would be lost.
fn likely_slot<T>(table: &HashTable<T>, hash: u64) -> Option<&T> {
    table.get_bucket(hash as usize & (table.num_buckets() - 1))
}

impl<K, S> Entries<K, S> {
    pub(super) fn new() -> Self {
        Self(HashTable::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn slots(&self) -> usize {
        self.0.num_buckets()
    }

    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&mut S> {
        let entry = self.0.find_mut(hash, |(key, _)| is(key));
        entry.map(|(_, state)| state)
    }

    /// The same, for a decision. Where the caches do not hold all tables, `read` is given a state
    /// that is likely the one to be found, and reads of it what the decision will need.
    ///
    /// To find a key, the processor waits for memory twice: for the tags of the key's slots, and
    /// then for the slot that they name. Nothing waits for what is read ahead, so it is on its
    /// way while the tags are. With a million keys a check takes 0.7 to 0.9 of the time so (bench
    /// `decision`).
    ///
    /// Inlined always: a twentieth of the instructions of a decision (bench `instructions`).
    #[inline(always)]
    pub(super) fn find_mut_to_decide(
        &mut self,
        hash: u64,
        is: impl Fn(&K) -> bool,
        read: impl FnOnce(&S) -> bool,
    ) -> Option<&mut S> {
        if self.slots() >= LARGE
            && let Some((_, state)) = likely_slot(&self.0, hash)
        {
            black_box(read(state));
        }
        self.find_mut(hash, is)
    }

    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<(K, S)> {
        let entry = self.0.find_entry(hash, |(key, _)| is(key));
        entry.ok().map(|entry| entry.remove().0)
    }

    pub(super) fn in_slot(&mut self, slot: usize) -> Option<OccupiedEntry<'_, (K, S)>> {
        self.0.get_bucket_entry(slot).ok()
    }

    /// Puts in a key that is not there, and for which [room was made](Self::make_room).
    pub(super) fn insert(&mut self, hash: u64, key: K, state: S) {
        let has_room = |_: &_| unreachable!("room was made");
        self.0.insert_unique(hash, (key, state), has_room);
    }

    /// Makes room for a key. Where removed entries took some of the room with them, it is won back
    /// by building the same table anew.
    pub(super) fn make_room(&mut self, hash_of: impl Fn(&K) -> u64) {
        if self.len() == self.0.capacity() {
            let full = capacity(self.slots());
            let is_worn = self.len() + (full / WORN).max(1) <= full;
            let more = full.max(self.len()) + 1;
            self.rebuild(if is_worn { full } else { more }, hash_of);
        }
    }

    /// Gives room back if there is much more than the entries need.
    pub(super) fn shrink_if_sparse(&mut self, hash_of: impl Fn(&K) -> u64) {
        match self.len() {
            _ if !self.is_sparse() => {}
            0 => *self = Self::new(),
            len => self.rebuild(2 * len, hash_of),
        }
    }

    pub(super) fn is_sparse(&self) -> bool {
        let slots = self.slots();
        slots > MIN_SLOTS && self.len() * SPARSE < slots
    }

    /// Moves all entries to a table for this many entries or more.
    #[cold]
    fn rebuild(&mut self, room: usize, hash_of: impl Fn(&K) -> u64) {
        // A key's own `Hash` may panic, so nothing is moved before.
        let hashes: Vec<u64> = self.0.iter().map(|(key, _)| hash_of(key)).collect();
        let before = std::mem::replace(&mut self.0, HashTable::with_capacity(room));
        for ((key, state), hash) in before.into_iter().zip(hashes) {
            self.insert(hash, key, state);
        }
    }
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

    fn put_in(entries: &mut Entries<u64, ()>, key: u64, hash_of: impl Fn(&u64) -> u64) {
        entries.make_room(&hash_of);
        entries.insert(hash_of(&key), key, ());
    }

    fn has(entries: &mut Entries<u64, ()>, key: u64) -> bool {
        entries
            .find_mut(mixed(&key), |known| *known == key)
            .is_some()
    }

    /// Keys come and go until removed ones have left no room.
    fn worn() -> Entries<u64, ()> {
        let mut entries = Entries::new();
        for key in 0..2_400 {
            put_in(&mut entries, key, mixed);
        }
        for key in 2_400.. {
            let left = key - 2_400;
            assert!(
                entries
                    .remove(mixed(&left), |known| *known == left)
                    .is_some()
            );
            if entries.len() == entries.0.capacity() {
                return entries;
            }
            put_in(&mut entries, key, mixed);
        }
        unreachable!("the keys do not end")
    }

    #[test]
    fn room_is_doubled_and_keeps_every_key() {
        let mut entries = Entries::new();
        for key in 0..20_000 {
            put_in(&mut entries, key, mixed);
            let at_most = (16 * entries.len()).div_ceil(7).next_multiple_of(4);
            assert!(entries.slots() <= at_most, "key {key}");
        }
        assert_eq!(entries.len(), 20_000);
        assert!((0..20_000).all(|key| has(&mut entries, key)));
        let in_slots = (0..entries.slots()).filter_map(|slot| {
            let entry = entries.in_slot(slot)?;
            Some(entry.get().0)
        });
        let mut found: Vec<u64> = in_slots.collect();
        found.sort_unstable();
        assert_eq!(found, Vec::from_iter(0..20_000));
    }

    #[test]
    fn most_keys_of_a_large_table_are_where_they_are_read_ahead() {
        let mut entries = Entries::new();
        for key in 0..20_000 {
            put_in(&mut entries, key, mixed);
        }
        assert!(entries.slots() >= LARGE);
        let is_likely = |(key, ()): &&(u64, ())| {
            let hash = mixed(key);
            let likely = likely_slot(&entries.0, hash);
            likely.is_some_and(|(likely, ())| likely == key)
        };
        let likely = entries.0.iter().filter(is_likely).count();
        assert!(likely > 10_000, "{likely}");
    }

    #[test]
    fn a_decision_finds_each_key_in_small_and_large_tables_and_no_other() {
        let mut entries = Entries::new();
        for key in 0..20_000 {
            put_in(&mut entries, key, mixed);
            for (asked, is_there) in [(key / 2, true), (key, true), (key + 1, false)] {
                let found = entries.find_mut_to_decide(mixed(&asked), |it| *it == asked, |()| true);
                assert_eq!(found.is_some(), is_there, "{asked} of {key}");
            }
        }
    }

    #[test]
    fn room_that_was_lost_is_won_back_without_growing() {
        let mut entries = worn();
        let known: Vec<u64> = entries.0.iter().map(|(key, ())| *key).collect();
        let slots = entries.slots();
        assert_eq!(entries.len(), entries.0.capacity());
        entries.make_room(mixed);
        assert!(entries.len() < entries.0.capacity());
        assert_eq!((entries.len(), entries.slots()), (known.len(), slots));
        assert!(known.into_iter().all(|key| has(&mut entries, key)));
    }

    #[test]
    fn a_key_whose_hash_panics_loses_nothing() {
        let mut entries = worn();
        let (keys, hashed) = (entries.len(), Cell::new(0));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            entries.make_room(|key| {
                hashed.set(hashed.get() + 1);
                assert!(hashed.get() < 100, "as a key's own `Hash` may");
                mixed(key)
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(entries.len(), keys);
    }

    /// A key's own `Hash` may be this bad.
    #[test]
    fn keys_with_one_hash_all_find_room() {
        for hash in [0, u64::MAX] {
            let mut entries = Entries::new();
            for key in 0..1_000 {
                put_in(&mut entries, key, |_| hash);
            }
            assert_eq!(entries.len(), 1_000);
            assert!((0..1_000).all(|key| entries.find_mut(hash, |known| *known == key).is_some()));
            assert!(entries.slots() <= 4 * 1_024, "{}", entries.slots());
        }
    }

    #[test]
    fn room_whose_entries_have_left_is_given_back() {
        let mut entries = Entries::new();
        for key in 0..5_000 {
            put_in(&mut entries, key, mixed);
        }
        for key in 100..5_000 {
            entries.remove(mixed(&key), |known| *known == key);
        }
        entries.shrink_if_sparse(mixed);
        assert_eq!((entries.len(), entries.slots()), (100, 256));
        assert!((0..100).all(|key| has(&mut entries, key)));
        entries.shrink_if_sparse(mixed);
        assert_eq!(entries.slots(), 256);
        for (left, slots) in [(32, 256), (31, 128), (16, 128), (15, 64), (1, 64)] {
            for key in left..100 {
                entries.remove(mixed(&key), |known| *known == key);
            }
            entries.shrink_if_sparse(mixed);
            assert_eq!((entries.len() as u64, entries.slots()), (left, slots));
        }
        for key in 100..200 {
            put_in(&mut entries, key, mixed);
        }
        for key in 0..200 {
            entries.remove(mixed(&key), |known| *known == key);
        }
        entries.shrink_if_sparse(mixed);
        let none = Entries::<u64, ()>::new().slots();
        assert_eq!((entries.len(), entries.slots()), (0, none));
    }

    /// Room that was lost is won back only where it is more than a few entries.
    #[test]
    fn a_key_that_comes_to_a_nearly_full_table_hashes_few_others() {
        const NEWCOMERS: u64 = 2_000;
        for full in [112, 224, 448] {
            for keys in [full - 2, full - 1, full] {
                let mut entries = Entries::new();
                let hashed = Cell::new(0);
                let hash_of = |key: &u64| {
                    hashed.set(hashed.get() + 1);
                    mixed(key)
                };
                for key in 0..keys {
                    put_in(&mut entries, key, hash_of);
                }
                hashed.set(0);
                for key in keys..keys + NEWCOMERS {
                    let left = key - keys;
                    entries.remove(mixed(&left), |known| *known == left);
                    put_in(&mut entries, key, hash_of);
                }
                // Two of these are its own.
                let each = hashed.get() / NEWCOMERS;
                assert!(each <= 2 + WORN as u64, "{each} with {keys}");
            }
        }
    }
}
