//! What a limit needs to be decided in memory: tables, and how it decides by them.

use crate::{
    algorithm::{KeyLimit, Limit},
    clock::Clock,
    key::Key,
    store::{AsKey, Ask, Change, Verdict},
};

use super::{LocalUsage, deferred_drop::DeferredDrops, policies::PolicyTables};

/// A limit whose buckets a [`LocalStore`](super::LocalStore) can keep: an algorithm, or an
/// [`EachOf`](crate::EachOf) of several.
///
/// It is not part of the public interface: a function that is generic over a limit takes any
/// `S: Store<A, K>`.
pub trait LocalBuckets<K>: Limit {
    #[doc(hidden)]
    type Tables: Tables;

    #[doc(hidden)]
    fn decide_in<Q: AsKey<K> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        ask: Ask,
        clock: &impl Clock,
    ) -> Verdict<Self::Snapshot>
    where
        K: Key;

    #[doc(hidden)]
    fn change_in<Q: AsKey<K> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        change: Change<'_, Self::Snapshot>,
        clock: &impl Clock,
    ) where
        K: Key;
}

/// The tables of a store.
#[doc(hidden)]
pub trait Tables {
    fn new(max_keys: usize) -> Self;

    /// Adds how full they are.
    fn add_to(&self, usage: &mut LocalUsage);
}

impl<A: KeyLimit, K> LocalBuckets<K> for A {
    type Tables = PolicyTables<K, A::State>;

    // Inlined always, as is what it calls: see `Table::decide_known`.
    #[inline(always)]
    fn decide_in<Q: AsKey<K> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        ask: Ask,
        clock: &impl Clock,
    ) -> Verdict<A::Snapshot>
    where
        K: Key,
    {
        tables.table(self.policy_id()).decide(self, key, ask, clock)
    }

    fn change_in<Q: AsKey<K> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        change: Change<'_, A::Snapshot>,
        clock: &impl Clock,
    ) where
        K: Key,
    {
        let mut drops = DeferredDrops::new();
        let table = tables.table(self.policy_id());
        table.change(self, key, change, &|| clock.now(), &mut drops);
    }
}
