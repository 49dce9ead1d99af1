//! Writes without a decision: debits, settlements, and places that are given back.

use std::borrow::Cow;

use crate::{algorithm::Algorithm, key::Key, store::AsKey};

use super::{
    call::{Call, SettledHold, fresh_state},
    deferred_drop::DeferredDrops,
    table::{Table, Unknown, is},
};

impl<K: Key, S> Table<K, S> {
    /// Charges a key whether it fits or not.
    pub(super) fn debit<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
    ) {
        if call.cost == 0 {
            return;
        }
        let is_changed = self.change(key, call, drops, |state| call.debit(state));
        if !is_changed {
            let fresh = fresh_state(call.algorithm);
            self.overflow.with_state(fresh, drops, |state| {
                call.debit_up_to_capacity(state);
                (true, ())
            });
        }
    }

    /// Settles a hold where it lies: in the entry of its key, or in the overflow bucket. If it is
    /// in neither any more, only what was spent beyond it is charged.
    pub(super) fn settle<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        hold: SettledHold<'_, A>,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
    ) {
        let hash = self.shards.hash(key);
        if let Some(state) = self.shards.lock(hash).entries.find_mut(hash, is(key))
            && call.settle_held(state, hold)
        {
            return;
        }
        let is_settled = self.overflow.settle(hold, call);
        if !is_settled && hold.spent > call.cost {
            let is_changed = self.change(key, call, drops, |state| call.settle(state, hold));
            if !is_changed {
                let fresh = fresh_state(call.algorithm);
                self.overflow.with_state(fresh, drops, |state| {
                    call.settle_up_to_capacity(state, hold);
                    (true, ())
                });
            }
        }
    }

    /// Gives back a place where it lies: in the entry of its key, or in the overflow bucket.
    pub(super) fn end<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        admission: &A::Snapshot,
        call: Call<'_, A>,
    ) {
        let hash = self.shards.hash(key);
        if let Some(state) = self.shards.lock(hash).entries.find_mut(hash, is(key))
            && call.end(state, admission)
        {
            return;
        }
        self.overflow.end(admission, call);
    }

    /// Changes the state of a key. A key without an entry gets one if there is room; otherwise
    /// nothing is changed, and this returns `false`.
    fn change<A: Algorithm<State = S>, Q: AsKey<K> + ?Sized>(
        &self,
        key: &Q,
        call: Call<'_, A>,
        drops: &mut DeferredDrops<K, S>,
        change: impl FnOnce(&mut S),
    ) -> bool {
        let change = |state: &mut S| {
            change(state);
            (true, ())
        };
        let hash = self.shards.hash(key);
        let mut shard = self.shards.lock(hash);
        if let Some(state) = shard.entries.find_mut(hash, is(key)) {
            change(state);
            return true;
        }
        let now = call.now();
        let Some(reservation) = self
            .shards
            .reserve(&mut shard, (call.algorithm, now), drops)
        else {
            return false;
        };
        let unknown = Unknown { shard, hash, now };
        let fresh = fresh_state(call.algorithm);
        let key = &mut Some(Cow::Borrowed(key));
        self.with_new_entry((unknown, reservation), key, (fresh, call), drops, change);
        true
    }
}
