//! The entries of one shard, and how their room grows and shrinks.

use std::hint::black_box;

use hashbrown::{HashTable, hash_table::OccupiedEntry};

/// Room of fewer slots is doubled, and is never given back.
const MIN_SLOTS: usize = 64;
/// Room this much larger than its entries is made smaller.
const SPARSE: usize = 8;
/// A table of so many slots, and those of the other shards, are more than the caches hold.
const LARGE: usize = 2_048;
/// A table that has lost this part of its room to removed entries is built anew.
const WORN: usize = 32;

/// Keys with their states, in one table or in two.
///
/// A *slot* has room for one entry: `hashbrown` calls it a bucket, which is a caller's limit here.
///
/// A table has a power of two of slots. One that doubles is half as full as before, so each
/// second time a smaller one is added beside it, of half its size, and a third of the keys moves
/// there: the room grows by a half, and then by a third. A full shard takes 0.67 to 0.75 of what it
/// would take after doubling (bench `memory`, keys between two powers of two); to look for a key
/// costs one comparison more.
pub(super) struct Entries<K, S> {
    larger: HashTable<(K, S)>,
    smaller: Option<Box<HashTable<(K, S)>>>,
    /// Whether there is one table, and it is not [large](LARGE): kept, so that a decision looks
    /// once and not at both tables.
    is_one_small: bool,
}

/// Whether a key belongs to the third that moves to the smaller table, if there is one. A table
/// takes the low bits for its slots and the highest seven for its tags, and the choice of a shard
/// depends on these bits least.
#[inline]
fn is_of_the_third(hash: u64) -> bool {
    ((hash >> 25) as u16) < u16::MAX / 3
}

/// How many entries this many slots have room for. (Fewer than eight have room for some too, but
/// those are never worn, and no table is asked to have so few.)
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
        Self::of(HashTable::new(), None)
    }

    fn of(larger: HashTable<(K, S)>, smaller: Option<Box<HashTable<(K, S)>>>) -> Self {
        Self {
            is_one_small: smaller.is_none() && larger.num_buckets() < LARGE,
            larger,
            smaller,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tables().map(HashTable::len).sum()
    }

    pub(super) fn slots(&self) -> usize {
        self.tables().map(HashTable::num_buckets).sum()
    }

    #[inline]
    pub(super) fn find_mut(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&mut S> {
        let entry = self.table_mut(hash).find_mut(hash, |(key, _)| is(key));
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
        if !self.is_one_small {
            return self.find_mut_in_many(hash, is, read);
        }
        let entry = self.larger.find_mut(hash, |(key, _)| is(key));
        entry.map(|(_, state)| state)
    }

    /// The same, out of line, so that the compiler does not merge the two: a decision about a key
    /// of the only table, as in most stores, takes a twentieth less (bench `decision`).
    #[inline(never)]
    fn find_mut_in_many(
        &mut self,
        hash: u64,
        is: impl Fn(&K) -> bool,
        read: impl FnOnce(&S) -> bool,
    ) -> Option<&mut S> {
        let table = self.table_mut(hash);
        if table.num_buckets() >= LARGE
            && let Some((_, state)) = likely_slot(table, hash)
        {
            black_box(read(state));
        }
        let entry = table.find_mut(hash, |(key, _)| is(key));
        entry.map(|(_, state)| state)
    }

    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<(K, S)> {
        let entry = self.table_mut(hash).find_entry(hash, |(key, _)| is(key));
        entry.ok().map(|entry| entry.remove().0)
    }

    /// The entry in a slot, of those of both tables.
    #[inline]
    pub(super) fn in_slot(&mut self, slot: usize) -> Option<OccupiedEntry<'_, (K, S)>> {
        let of_larger = self.larger.num_buckets();
        match &mut self.smaller {
            Some(smaller) if slot >= of_larger => smaller.get_bucket_entry(slot - of_larger),
            _ => self.larger.get_bucket_entry(slot),
        }
        .ok()
    }

    /// Puts in a key that is not there, and for which [room was made](Self::make_room).
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, key: K, state: S) {
        let has_room = |_: &_| unreachable!("room was made");
        self.table_mut(hash)
            .insert_unique(hash, (key, state), has_room);
    }

    /// Makes room for a key with this hash.
    #[inline]
    pub(super) fn make_room(&mut self, hash: u64, hash_of: impl Fn(&K) -> u64) {
        let table = self.table(hash);
        if table.len() == table.capacity() {
            let full = capacity(table.num_buckets());
            let is_worn = table.len() + (full / WORN).max(1) <= full;
            self.grow(is_worn, hash_of);
        }
    }

    /// Gives room back if there is much more than the entries need.
    pub(super) fn shrink_if_sparse(&mut self, hash_of: impl Fn(&K) -> u64) {
        match self.len() {
            _ if !self.is_sparse() => {}
            0 => *self = Self::new(),
            len => self.rebuild(2 * len, false, hash_of),
        }
    }

    pub(super) fn is_sparse(&self) -> bool {
        let slots = self.slots();
        slots > MIN_SLOTS && self.len() * SPARSE < slots
    }

    /// Makes room for one entry more. Where removed entries took some of the room with them, it is
    /// won back by building the same tables anew.
    #[cold]
    fn grow(&mut self, is_worn: bool, hash_of: impl Fn(&K) -> u64) {
        let slots = self.larger.num_buckets();
        let with_smaller = match is_worn {
            true => self.smaller.is_some(),
            // Without a smaller one the new table is for all keys and one more: it has twice the
            // slots of one that is full.
            false => self.smaller.is_none() && slots >= MIN_SLOTS,
        };
        self.rebuild(capacity(slots), with_smaller, hash_of);
    }

    /// Moves all entries to new tables: one for this many entries or more, and one of half its size
    /// if it is asked for. Each has room for one entry more than it gets.
    fn rebuild(&mut self, room: usize, with_smaller: bool, hash_of: impl Fn(&K) -> u64) {
        // A key's own `Hash` may panic, so nothing is moved before; and it may be a bad one, so the
        // keys of each table are counted.
        let hashes: Vec<u64> = self
            .tables()
            .flatten()
            .map(|(key, _)| hash_of(key))
            .collect();
        let of_smaller = hashes
            .iter()
            .filter(|hash| with_smaller && is_of_the_third(**hash))
            .count();
        let table = |room: usize, keys| HashTable::with_capacity(room.max(keys + 1));
        let larger = table(room, hashes.len() - of_smaller);
        let smaller = with_smaller.then(|| Box::new(table(room / 2, of_smaller)));
        let new = Self::of(larger, smaller);
        let Self {
            larger, smaller, ..
        } = std::mem::replace(self, new);
        let entries = larger
            .into_iter()
            .chain(smaller.into_iter().flat_map(|table| *table));
        for ((key, state), hash) in entries.zip(hashes) {
            self.insert(hash, key, state);
        }
    }

    #[inline]
    fn table(&self, hash: u64) -> &HashTable<(K, S)> {
        match &self.smaller {
            Some(smaller) if is_of_the_third(hash) => smaller,
            _ => &self.larger,
        }
    }

    #[inline]
    fn table_mut(&mut self, hash: u64) -> &mut HashTable<(K, S)> {
        match &mut self.smaller {
            Some(smaller) if is_of_the_third(hash) => smaller,
            _ => &mut self.larger,
        }
    }

    fn tables(&self) -> impl Iterator<Item = &HashTable<(K, S)>> {
        std::iter::once(&self.larger).chain(self.smaller.as_deref())
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
        entries.make_room(hash_of(&key), &hash_of);
        entries.insert(hash_of(&key), key, ());
    }

    fn has(entries: &mut Entries<u64, ()>, key: u64) -> bool {
        entries
            .find_mut(mixed(&key), |known| *known == key)
            .is_some()
    }

    /// Keys come and go until removed ones have left no room in one of two tables.
    fn worn() -> Entries<u64, ()> {
        let mut entries = Entries::new();
        for key in 0..2_400 {
            put_in(&mut entries, key, mixed);
        }
        assert!(entries.smaller.is_some());
        for key in 2_400.. {
            let left = key - 2_400;
            assert!(
                entries
                    .remove(mixed(&left), |known| *known == left)
                    .is_some()
            );
            let table = entries.table(mixed(&key));
            if table.len() == table.capacity() {
                return entries;
            }
            put_in(&mut entries, key, mixed);
        }
        unreachable!("the keys do not end")
    }

    #[test]
    fn room_grows_by_no_more_than_a_half_at_a_time_and_keeps_every_key() {
        let mut entries = Entries::new();
        let mut slots = 0;
        for key in 0..20_000 {
            put_in(&mut entries, key, mixed);
            if slots > MIN_SLOTS {
                assert!(entries.slots() * 2 <= slots * 3);
                assert!(entries.slots() * 4 <= entries.len() * 8, "key {key}");
            }
            slots = entries.slots();
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
        assert!(entries.tables().all(|table| table.num_buckets() >= LARGE));
        let is_likely = |(key, ()): &&(u64, ())| {
            let hash = mixed(key);
            let likely = likely_slot(entries.table(hash), hash);
            likely.is_some_and(|(likely, ())| likely == key)
        };
        let likely = entries.tables().flatten().filter(is_likely).count();
        assert!(likely > 10_000, "{likely}");
    }

    #[test]
    fn a_decision_finds_each_key_in_small_and_large_tables_and_no_other() {
        let mut entries = Entries::new();
        for key in 0..20_000 {
            put_in(&mut entries, key, mixed);
            let is_one_small = entries.smaller.is_none() && entries.larger.num_buckets() < LARGE;
            assert_eq!(entries.is_one_small, is_one_small, "{key}");
            for (asked, is_there) in [(key / 2, true), (key, true), (key + 1, false)] {
                let found = entries.find_mut_to_decide(mixed(&asked), |it| *it == asked, |()| true);
                assert_eq!(found.is_some(), is_there, "{asked} of {key}");
            }
        }
    }

    #[test]
    fn room_that_was_lost_is_won_back_without_growing() {
        let mut entries = worn();
        let known: Vec<u64> = entries.tables().flatten().map(|(key, ())| *key).collect();
        let slots = entries.slots();
        let full = |entries: &Entries<u64, ()>| {
            let is_full = |table: &HashTable<_>| table.len() == table.capacity();
            entries.tables().any(is_full)
        };
        assert!(full(&entries));
        for hash in [0, u64::MAX] {
            entries.make_room(hash, mixed);
        }
        assert!(!full(&entries));
        assert_eq!((entries.len(), entries.slots()), (known.len(), slots));
        assert!(known.into_iter().all(|key| has(&mut entries, key)));
    }

    #[test]
    fn a_key_whose_hash_panics_loses_nothing() {
        let mut entries = worn();
        let (keys, hashed) = (entries.len(), Cell::new(0));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for hash in [0, u64::MAX] {
                entries.make_room(hash, |key| {
                    hashed.set(hashed.get() + 1);
                    assert!(hashed.get() < 100, "as a key's own `Hash` may");
                    mixed(key)
                });
            }
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
