//! A table for each policy, found without a lock.

use std::sync::OnceLock;

use crate::algorithm::PolicyId;

use super::table::Table;

/// The tables of a store in a list that only grows: as long as the policies that were ever used with it.
pub(super) struct Policies<K, S> {
    first: OnceLock<Node<K, S>>,
    max_keys: usize,
}

struct Node<K, S> {
    policy: PolicyId,
    table: Table<K, S>,
    next: OnceLock<Box<Node<K, S>>>,
}

impl<K, S> Policies<K, S> {
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            first: OnceLock::new(),
            max_keys,
        }
    }

    #[inline]
    pub(super) fn table(&self, policy: PolicyId) -> &Table<K, S> {
        match self.first.get() {
            Some(node) if node.policy == policy => &node.table,
            _ => self.find(policy),
        }
    }

    fn find(&self, policy: PolicyId) -> &Table<K, S> {
        let new_node = || Node {
            policy,
            table: Table::new(self.max_keys),
            next: OnceLock::new(),
        };
        let mut node = self.first.get_or_init(new_node);
        while node.policy != policy {
            node = node.next.get_or_init(|| Box::new(new_node()));
        }
        &node.table
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &Table<K, S>> {
        let nodes =
            std::iter::successors(self.first.get(), |node| node.next.get().map(|next| &**next));
        nodes.map(|node| &node.table)
    }
}
