//! The keys of which an operator has said that they are refused, or let through, until an instant.
//! While that lasts none of them has an entry, so that a decision about a key that has one asks
//! nothing here.

use std::sync::atomic::Ordering::Relaxed;

use crate::{algorithm::Override, clock::Timestamp, key::Key, store::AsKey};

use super::{
    deferred_drop::DeferredDrops,
    entries::Entries,
    locked_state::is,
    overflow::Now,
    shards::{Shard, Shards},
};

/// So many of a shard are kept before it is looked which of them are over.
const MIN_KNOWN: usize = 16;

/// The overridden keys of a shard.
pub(super) struct Overrides<K> {
    all: Entries<K, Override>,
    /// With so many, those that are over are forgotten.
    max: usize,
}

impl<K> Default for Overrides<K> {
    fn default() -> Self {
        Self {
            all: Entries::new(),
            max: MIN_KNOWN,
        }
    }
}

impl<K: Key> Overrides<K> {
    #[cold]
    fn of<Q: AsKey<K> + ?Sized>(
        &mut self,
        (hash, key): (u64, &Q),
        now: Now<'_>,
    ) -> Option<Override> {
        let overriding = *self.all.find_mut(hash, is(key))?;
        (now() < overriding.until).then_some(overriding)
    }
}

impl<K: Key, S> Shard<K, S> {
    /// What decides about a key that has no entry instead of its limit.
    #[inline]
    pub(super) fn overridden<Q: AsKey<K> + ?Sized>(
        &mut self,
        known: (u64, &Q),
        now: Now<'_>,
    ) -> Option<Override> {
        self.overrides.as_deref_mut()?.of(known, now)
    }
}

impl<K: Key, S> Shards<K, S> {
    /// Forgets the state of a key, and has this decide about it; unless there is no room.
    pub(super) fn set_override(
        &self,
        key: K,
        (overriding, now): (Override, Timestamp),
        drops: &mut DeferredDrops<K, S>,
    ) {
        let hash = self.hash(&key);
        let mut shard = self.lock(hash);
        let shard = &mut *shard;
        let known = shard.overrides.get_or_insert_default();
        let is_full = || self.overridden.load(Relaxed) >= self.max_keys;
        if known.all.len() >= known.max || is_full() {
            self.forget_ended(known, now, drops);
        }
        if is_full()
            && let Some(mut other) = self.lock_next()
            && let Some(others) = &mut other.overrides
        {
            self.forget_ended(others, now, drops);
        }
        let all = &mut known.all;
        if is_full() && all.find_mut(hash, |known| *known == key).is_none() {
            return drops.keep(Some(key), None);
        }
        // The key's own code, which may panic, runs before anything is forgotten.
        all.make_room(|key| self.hash(key));
        if let Some((key, state)) = shard.entries.remove(hash, |known| *known == key) {
            drops.keep(Some(key), Some(state));
            self.uncount(1);
        }
        if let Some(known) = all.find_mut(hash, |known| *known == key) {
            *known = overriding;
            return drops.keep(Some(key), None);
        }
        all.insert(hash, key, overriding);
        self.overridden.fetch_add(1, Relaxed);
    }

    /// Forgets those of a shard that are over.
    fn forget_ended(
        &self,
        Overrides { all, max }: &mut Overrides<K>,
        now: Timestamp,
        drops: &mut DeferredDrops<K, S>,
    ) {
        for slot in 0..all.slots() {
            if let Some(entry) = all.in_slot(slot)
                && entry.get().1.until <= now
            {
                drops.keep(Some(entry.remove().0.0), None);
                self.overridden.fetch_sub(1, Relaxed);
            }
        }
        *max = MIN_KNOWN.max(2 * all.len());
    }

    pub(super) fn end_override<Q: AsKey<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, S>,
        (hash, key): (u64, &Q),
        drops: &mut DeferredDrops<K, S>,
    ) {
        let all = shard.overrides.as_mut().map(|overrides| &mut overrides.all);
        if let Some((key, _)) = all.and_then(|all| all.remove(hash, is(key))) {
            drops.keep(Some(key), None);
            self.overridden.fetch_sub(1, Relaxed);
        }
    }
}
