//! What the store answers: always at once.

use crate::{
    algorithm::Algorithm,
    clock::Clock,
    key::Key,
    store::{AsKey, ImmediateStore, Verdict},
};

use super::{
    LocalStore,
    call::{Call, SettledHold},
    deferred_drop::DeferredDrops,
};

impl<A: Algorithm, K: Key, C: Clock> ImmediateStore<A, K> for LocalStore<A, K, C> {
    // Inlined always, as is what it calls: see `decide_known`.
    #[inline(always)]
    fn decide_now<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Verdict<A::Snapshot> {
        let table = self.table(algorithm);
        match table.decide_known(algorithm, key, cost, &self.clock) {
            Ok(verdict) => verdict,
            Err(unknown) => table.decide_new(unknown, algorithm, key, (cost, &self.clock)),
        }
    }

    #[inline]
    fn peek_now<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Verdict<A::Snapshot> {
        let clock = || self.clock.now();
        let call = Call::new(algorithm, cost, &clock);
        self.table(algorithm).peek(key, call)
    }

    fn refund_now<Q: AsKey<K> + ?Sized>(&self, algorithm: &A, key: &Q, cost: u32) {
        let clock = || self.clock.now();
        let call = Call::new(algorithm, cost, &clock);
        self.table(algorithm).refund(key, call);
    }

    fn debit_now<Q: AsKey<K> + ?Sized>(&self, algorithm: &A, key: &Q, units: u32) {
        let clock = || self.clock.now();
        let call = Call::new(algorithm, units, &clock);
        let mut drops = DeferredDrops::new();
        self.table(algorithm).debit(key, call, &mut drops);
    }

    fn settle_now<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        admission: &A::Snapshot,
        (held, spent): (u32, u32),
    ) {
        let clock = || self.clock.now();
        let call = Call::new(algorithm, held, &clock);
        let mut drops = DeferredDrops::new();
        (self.table(algorithm)).settle(key, SettledHold { admission, spent }, call, &mut drops);
    }

    fn reset_now<Q: AsKey<K> + ?Sized>(&self, algorithm: &A, key: &Q) {
        let mut drops = DeferredDrops::new();
        self.table(algorithm).reset(key, algorithm, &mut drops);
    }
}
