//! How idle keys leave: a few slots are visited inside ordinary calls.

use crate::{algorithm::KeyLimit, clock::Timestamp, key::Key};

use super::{
    deferred_drop::{DeferredDrops, is_dropping},
    shards::{Reservation, Shard, Shards},
};

/// How many slots a sweep visits that is due after calls for known keys.
pub(super) const SLOTS_FOR_KNOWN_KEYS: usize = 32;
/// How many slots are visited when a new key gets an entry: more than the one it takes.
pub(super) const SLOTS_FOR_A_NEW_KEY: usize = 4;
/// How many slots, and then other shards, are visited for a new key when the table is full.
pub(super) const SLOTS_IN_A_FULL_TABLE: usize = 32;

impl<K: Key, S> Shards<K, S> {
    /// Visits a few slots of the next shard in turn, so that idle keys leave wherever the calls
    /// go.
    #[cold]
    pub(super) fn sweep_next<A: KeyLimit<State = S>>(&self, algorithm: &A, now: Timestamp) {
        let mut drops = DeferredDrops::new();
        if let Some(mut shard) = self.lock_next() {
            let by = (algorithm, now);
            self.sweep(&mut shard, by, SLOTS_FOR_KNOWN_KEYS, &mut drops);
        }
    }

    /// Counts one more key, if there is room or some can be made.
    pub(super) fn reserve<A: KeyLimit<State = S>>(
        &self,
        shard: &mut Shard<K, S>,
        by: (&A, Timestamp),
        drops: &mut DeferredDrops<K, S>,
    ) -> Option<Reservation<'_>> {
        self.sweep(shard, by, SLOTS_FOR_A_NEW_KEY, drops);
        match self.try_reserve() {
            None if self.any_left(shard, by, drops) => self.try_reserve(),
            reservation => reservation,
        }
    }

    /// Looks for idle keys in this shard, and then in others that nobody has locked; says whether
    /// any left.
    #[cold]
    fn any_left<A: KeyLimit<State = S>>(
        &self,
        shard: &mut Shard<K, S>,
        by: (&A, Timestamp),
        drops: &mut DeferredDrops<K, S>,
    ) -> bool {
        if self.sweep(shard, by, SLOTS_IN_A_FULL_TABLE, drops) > 0 {
            return true;
        }
        (0..SLOTS_IN_A_FULL_TABLE).any(|_| {
            self.lock_next()
                .is_some_and(|mut other| self.sweep(&mut other, by, SLOTS_FOR_A_NEW_KEY, drops) > 0)
        })
    }

    /// Takes the idle keys out of this many slots of a shard, and says how many.
    #[cold]
    fn sweep<A: KeyLimit<State = S>>(
        &self,
        Shard { entries, sweep, .. }: &mut Shard<K, S>,
        (algorithm, now): (&A, Timestamp),
        slots: usize,
        drops: &mut DeferredDrops<K, S>,
    ) -> usize {
        let (before, all) = (entries.len(), entries.slots());
        if is_dropping() || before == 0 && !entries.is_sparse() {
            return 0;
        }
        for _ in 0..slots.min(all) {
            if let Some(entry) = entries.in_slot(sweep.next_slot as usize)
                && algorithm.is_fresh(&entry.get().1, now)
            {
                let (key, state) = entry.remove().0;
                drops.keep(Some(key), Some(state));
            }
            sweep.next_slot = sweep.next_slot.wrapping_add(1);
            if sweep.next_slot as usize >= all {
                sweep.next_slot = 0;
                if entries.is_sparse() {
                    break;
                }
            }
        }
        let left = before - entries.len();
        if left > 0 {
            self.uncount(left);
        }
        // Room is given back after all slots were visited. A key's own `Hash` may panic, so those
        // that have left are no longer counted by then.
        if sweep.next_slot == 0 {
            entries.shrink_if_sparse(|key| self.hash(key));
        }
        left
    }
}
