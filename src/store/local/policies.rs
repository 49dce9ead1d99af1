//! A table for each policy, found without a lock.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{algorithm::PolicyId, store::append_only::AppendOnlyMap};

use super::{LocalUsage, buckets::Tables, table::Table};

/// At this many policies a warning is logged: so many are made up from requests, not written down.
const MANY: usize = 1_000;

/// The tables of a store: one for each policy that was ever used with it.
pub struct Policies<K, S> {
    all: AppendOnlyMap<PolicyId, Table<K, S>>,
    count: AtomicUsize,
    max_keys: usize,
}

impl<K, S> Tables for Policies<K, S> {
    /// No tables yet, each of which will be for so many keys.
    fn new(max_keys: usize) -> Self {
        Self {
            all: AppendOnlyMap::new(),
            count: AtomicUsize::new(0),
            max_keys,
        }
    }

    fn add_to(&self, usage: &mut LocalUsage) {
        self.all.for_each(|table| {
            usage.keys += table.shards.keys();
            usage.overflow_decisions += table.overflow.decisions();
        });
    }
}

impl<K, S> Policies<K, S> {
    #[inline]
    pub(super) fn table(&self, id: PolicyId) -> &Table<K, S> {
        match self.all.first() {
            Some((first, table)) if *first == id => table,
            _ => self.find(id),
        }
    }

    fn find(&self, id: PolicyId) -> &Table<K, S> {
        let number = Cell::new(0);
        let table = self.all.get_or_add((id, id.as_u64()), || {
            number.set(1 + self.count.fetch_add(1, Ordering::Relaxed));
            Table::new(self.max_keys)
        });
        // What is called here may ask this store.
        if number.get() == MANY {
            tracing::warn!(
                target: "tollgate::local_store",
                policies = MANY,
                "a store has many policies, and keeps a table for each as long as it lives: give one whose numbers change a name, \
                 under which it stays one, and make none up from requests"
            );
        }
        table
    }
}
