//! The shards of a table: which one a key is in, and how many keys there are.

use std::{
    hash::{self, BuildHasher},
    sync::atomic::{AtomicUsize, Ordering},
};

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::{key::Key, store::AsKey};

use super::{entries::Entries, overrides::Overrides};

/// A full shard has about so many keys: few enough that growing it is short, and nearly as many as
/// fit before it grows. With a quarter of this number, four times as many shards fill more cache
/// lines, and a decision about one of 1 000 keys takes a tenth longer (bench `decision`).
///
/// So the number of shards follows `max_keys`, and stays. What follows the keys that are there is
/// the room in each shard, which is doubled: more shards for more keys would mean to move keys
/// between locks.
const KEYS_PER_SHARD: usize = 12_800;
const MIN_SHARDS: usize = 32;
const MAX_SHARDS: usize = 4_096;

/// The keys of a table with their states, in shards behind locks.
pub(super) struct Shards<K, S> {
    hasher: RandomState,
    shards: Box<[LockedShard<K, S>]>,
    pub(super) max_keys: usize,
    keys: AtomicUsize,
    /// How many keys are overridden, or were a while ago.
    pub(super) overridden: AtomicUsize,
    /// The shard whose turn it is to be swept.
    next_shard: AtomicUsize,
}

/// A shard on a cache line of its own, so that threads at two shards don't take one line from each
/// other. A panic in a key's own `Eq` or `Hash` unlocks it: a shard is never half written there.
#[repr(align(64))]
struct LockedShard<K, S>(Mutex<Shard<K, S>>);

pub(super) struct Shard<K, S> {
    pub(super) entries: Entries<K, S>,
    pub(super) sweep: Sweep,
    /// None, as long as no key of the shard was overridden.
    pub(super) overrides: Option<Box<Overrides<K>>>,
}

/// How many calls for known keys go by between two sweeps. With sweeps four times as often, of a
/// quarter as many slots each, a check takes 3 % longer (bench `decision`).
pub(super) const CALLS_PER_SWEEP: u32 = 128;

/// The progress of a shard's sweep.
pub(super) struct Sweep {
    /// A shard has fewer than 2^32.
    pub(super) next_slot: u32,
    calls_left: u32,
}

impl Sweep {
    fn new() -> Self {
        Self {
            next_slot: 0,
            calls_left: CALLS_PER_SWEEP,
        }
    }

    /// Counts a call for a known key; says whether a few slots are to be visited after it.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.calls_left -= 1;
        if self.calls_left == 0 {
            self.calls_left = CALLS_PER_SWEEP;
            return true;
        }
        false
    }
}

/// One of `max_keys`, given back if a panic in the key's own `Clone` or `Hash` keeps the key from
/// taking it.
pub(super) struct Reservation<'a>(&'a AtomicUsize);

impl Reservation<'_> {
    /// The key has taken it.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The standard library has asked the system for its seeds.
fn seeded_at_random() -> RandomState {
    let seeds = [(); 4].map(|()| hash::RandomState::new().hash_one(0));
    let [first, second, third, fourth] = seeds;
    RandomState::with_seeds(first, second, third, fourth)
}

impl<K, S> Shards<K, S> {
    pub(super) fn new(max_keys: usize) -> Self {
        let shards = (max_keys.div_ceil(KEYS_PER_SHARD)).clamp(MIN_SHARDS, MAX_SHARDS);
        let shard = || Shard {
            entries: Entries::new(),
            sweep: Sweep::new(),
            overrides: None,
        };
        Self {
            hasher: seeded_at_random(),
            shards: (0..shards)
                .map(|_| LockedShard(Mutex::new(shard())))
                .collect(),
            max_keys,
            keys: AtomicUsize::new(0),
            overridden: AtomicUsize::new(0),
            next_shard: AtomicUsize::new(0),
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// The shard of a key with this hash.
    #[inline]
    pub(super) fn lock(&self, hash: u64) -> MutexGuard<'_, Shard<K, S>> {
        // The table inside a shard takes the low bits for its slots and the highest seven for its
        // tags.
        let middle_bits = u64::from((hash >> 25) as u32);
        let shard = (middle_bits * self.shards.len() as u64) >> 32;
        self.shards[shard as usize].0.lock()
    }

    /// The next shard in turn, if nobody has locked it: waiting for it while another one is locked
    /// could deadlock.
    pub(super) fn lock_next(&self) -> Option<MutexGuard<'_, Shard<K, S>>> {
        let next = self.next_shard.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        self.shards[next].0.try_lock()
    }

    #[cfg(test)]
    pub(super) fn lock_all(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<K, S>>> {
        self.shards.iter().map(|shard| shard.0.lock())
    }

    /// Counts one more key, if there is room.
    pub(super) fn try_reserve(&self) -> Option<Reservation<'_>> {
        let reservation = Reservation(&self.keys);
        (self.keys.fetch_add(1, Ordering::Relaxed) < self.max_keys).then_some(reservation)
    }

    /// So many keys have left.
    pub(super) fn uncount(&self, keys: usize) {
        self.keys.fetch_sub(keys, Ordering::Relaxed);
    }
}

impl<K: Key, S> Shards<K, S> {
    #[inline]
    pub(super) fn hash<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_cache_line() {
        assert_eq!(size_of::<LockedShard<std::net::IpAddr, [u64; 3]>>(), 64);
    }
}
