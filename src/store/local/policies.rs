//! A table for each policy, found without a lock.

use std::sync::OnceLock;

use crate::algorithm::{Algorithm, Numbers, PolicyId};

use super::{Usage, buckets::Tables, table::Table};

/// The tables of a store in a list that only grows: as long as the policies that were ever used with it.
pub struct Policies<K, S> {
    first: OnceLock<Node<K, S>>,
    max_keys: usize,
}

struct Node<K, S> {
    policy: PolicyId,
    /// Those that the policy had first.
    numbers: Numbers,
    table: Table<K, S>,
    next: OnceLock<Box<Node<K, S>>>,
}

impl<K, S> Policies<K, S> {
    #[inline]
    pub(super) fn table<A: Algorithm<State = S>>(&self, algorithm: &A) -> &Table<K, S> {
        match self.first.get() {
            // The numbers of another policy are others.
            Some(node) if node.numbers.id() == algorithm.numbers().id() => &node.table,
            _ => self.find(algorithm),
        }
    }

    #[inline(never)]
    fn find<A: Algorithm<State = S>>(&self, algorithm: &A) -> &Table<K, S> {
        let (policy, numbers) = (algorithm.policy_id(), algorithm.numbers());
        let new_node = || Node {
            policy,
            numbers,
            table: Table::new(self.max_keys),
            next: OnceLock::new(),
        };
        let mut node = self.first.get_or_init(new_node);
        while node.policy != policy {
            node = node.next.get_or_init(|| Box::new(new_node()));
        }
        if node.numbers.id() != numbers.id() {
            node.table.counts_under(node.numbers);
            node.table.counts_under(numbers);
        }
        &node.table
    }

    fn tables(&self) -> impl Iterator<Item = &Table<K, S>> {
        let nodes =
            std::iter::successors(self.first.get(), |node| node.next.get().map(|next| &**next));
        nodes.map(|node| &node.table)
    }
}

impl<K, S> Tables for Policies<K, S> {
    fn new(max_keys: usize) -> Self {
        Self {
            first: OnceLock::new(),
            max_keys,
        }
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for table in self.tables() {
            usage.keys += table.keys();
            usage.overflow_decisions += table.overflow_decisions();
        }
        usage
    }
}
