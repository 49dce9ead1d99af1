//! The keys of which an operator has said that they are refused, or let through, until an instant.
//! None of them has an entry, so that a decision about a key that has one asks nothing here.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::{algorithm::Override, key::Key, store::AsKey};

use super::{deferred_drop::DeferredDrops, entries::Entries, overflow::Now, place::is};

/// So many are kept before it is looked which of them are over.
const MIN_KNOWN: usize = 64;

pub(super) struct Overrides<K> {
    /// Read before the lock is taken: mostly there are none.
    count: AtomicUsize,
    known: Mutex<Known<K>>,
}

struct Known<K> {
    all: Entries<K, Override>,
    /// With so many, those that are over are forgotten.
    max: usize,
}

impl<K> Overrides<K> {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            known: Mutex::new(Known {
                all: Entries::new(),
                max: MIN_KNOWN,
            }),
        }
    }
}

impl<K: Key> Overrides<K> {
    pub(super) fn are_none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// What is said of the key with this hash.
    pub(super) fn of<Q: AsKey<K> + ?Sized>(
        &self,
        (hash, key): (u64, &Q),
        now: Now<'_>,
    ) -> Option<Override> {
        let mut known = self.known.lock();
        let told = known.all.find_mut(hash, is(key)).copied();
        told.filter(|told| now() < told.until)
    }

    /// To be called under the lock of the key's shard.
    pub(super) fn set<S>(
        &self,
        (hash, key): (u64, K),
        told: Override,
        hash_of: impl Fn(&K) -> u64,
        (now, drops): (Now<'_>, &mut DeferredDrops<K, S>),
    ) {
        let mut known = self.known.lock();
        let Known { all, max } = &mut *known;
        if all.len() >= *max {
            let now = now();
            for slot in 0..all.slots() {
                if let Some(entry) = all.in_slot(slot)
                    && entry.get().1.until <= now
                {
                    drops.keep(Some(entry.remove().0.0), None);
                }
            }
            *max = MIN_KNOWN.max(2 * all.len());
        }
        match all.find_mut(hash, |known| *known == key) {
            Some(before) => {
                *before = told;
                drops.keep(Some(key), None);
            }
            None => {
                all.make_room(hash_of);
                all.insert(hash, key, told);
            }
        }
        self.count.store(all.len(), Ordering::Relaxed);
    }

    pub(super) fn remove<S, Q: AsKey<K> + ?Sized>(
        &self,
        (hash, key): (u64, &Q),
        drops: &mut DeferredDrops<K, S>,
    ) {
        if !self.are_none() {
            let mut known = self.known.lock();
            if let Some((key, _)) = known.all.remove(hash, is(key)) {
                drops.keep(Some(key), None);
            }
            self.count.store(known.all.len(), Ordering::Relaxed);
        }
    }
}
