//! A table for each policy, found without a lock.

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::algorithm::PolicyId;

use super::{LocalUsage, buckets::Tables, table::Table};

/// At this many policies a warning is logged: so many are made up from requests, not written down.
const MANY: usize = 1_000;

/// How many nodes may follow one.
const BASE: usize = 16;

/// The tables of a store: one for each policy that was ever used with it, in a tree.
///
/// A new policy takes the first free node on the path that the digits of its id give. Of ten
/// thousand most are three or four steps from the first. A reference to a table stays valid without
/// a lock, so that a decision neither locks nor counts references.
///
/// All that threads agree on is the standard library's `OnceLock`: there is no order of our own for
/// a model checker to explore.
pub struct PolicyTables<K, S> {
    first: OnceLock<Node<K, S>>,
    count: AtomicUsize,
    max_keys: usize,
}

struct Node<K, S> {
    policy: PolicyId,
    table: Table<K, S>,
    /// One for each digit.
    next: [OnceLock<Box<Self>>; BASE],
}

impl<K, S> Tables for PolicyTables<K, S> {
    /// No tables yet, each of which will be for so many keys.
    fn new(max_keys: usize) -> Self {
        Self {
            first: OnceLock::new(),
            count: AtomicUsize::new(0),
            max_keys,
        }
    }

    fn add_to(&self, usage: &mut LocalUsage) {
        let mut nodes: Vec<_> = self.first.get().into_iter().collect();
        while let Some(node) = nodes.pop() {
            usage.keys += node.table.shards.keys();
            usage.overflow_decisions += node.table.overflow.decisions();
            let next = node.next.iter().filter_map(OnceLock::get);
            nodes.extend(next.map(|node| &**node));
        }
    }
}

impl<K, S> PolicyTables<K, S> {
    /// The table of a policy, which is made if there is none. Threads that look for one at once are
    /// given the same.
    #[inline]
    pub(super) fn table(&self, policy: PolicyId) -> &Table<K, S> {
        match self.first.get() {
            Some(first) if first.policy == policy => &first.table,
            _ => self.find(policy),
        }
    }

    fn find(&self, policy: PolicyId) -> &Table<K, S> {
        let number = Cell::new(0);
        let new = || {
            number.set(1 + self.count.fetch_add(1, Ordering::Relaxed));
            Node {
                policy,
                table: Table::new(self.max_keys),
                next: [const { OnceLock::new() }; BASE],
            }
        };
        let (mut node, mut digits) = (self.first.get_or_init(new), policy.as_u64());
        while node.policy != policy {
            node = node.next[digits as usize % BASE].get_or_init(|| Box::new(new()));
            digits /= BASE as u64;
        }
        // What is called here may ask this store.
        if number.get() == MANY {
            tracing::warn!(
                target: "tollgate::local_store",
                policies = MANY,
                "a store has many policies, and keeps a table for each as long as it lives: give one whose numbers change a name, \
                 under which it stays one, and make none up from requests"
            );
        }
        &node.table
    }
}

#[cfg(test)]
mod tests {
    use std::{ptr, sync::Barrier, thread};

    use super::*;

    fn policies() -> PolicyTables<(), ()> {
        PolicyTables::new(1)
    }

    /// As good as random.
    fn mixed(number: u64) -> PolicyId {
        let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        PolicyId::from_bits((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 3)
    }

    /// How many steps it takes to find a policy.
    fn steps(policies: &PolicyTables<(), ()>, policy: PolicyId) -> usize {
        let mut node = policies.first.get().expect("the first");
        let (mut digits, mut steps) = (policy.as_u64(), 0);
        while node.policy != policy {
            let next = node.next[digits as usize % BASE].get();
            node = next.expect("it was added");
            (digits, steps) = (digits / BASE as u64, steps + 1);
        }
        steps
    }

    #[test]
    fn ten_thousand_policies_are_found_in_a_few_steps() {
        let policies = policies();
        let tables = || (0..10_000).map(|number| ptr::from_ref(policies.table(mixed(number))));
        assert!(tables().eq(tables().collect::<Vec<_>>()));
        assert_eq!(policies.count.load(Ordering::Relaxed), 10_000);
        let steps: Vec<_> = (0..10_000)
            .map(|number| steps(&policies, mixed(number)))
            .collect();
        assert!(steps.iter().sum::<usize>() < 40_000);
        assert!(steps.iter().max() <= Some(&8));
    }

    #[test]
    fn policies_whose_ids_are_alike_are_told_apart() {
        let policies = policies();
        // All but the last digits that are looked at.
        let ids = || (0..64).map(|bit| PolicyId::from_bits(1 << bit));
        let tables: Vec<_> = ids().map(|id| ptr::from_ref(policies.table(id))).collect();
        assert!(ids().map(|id| ptr::from_ref(policies.table(id))).eq(tables));
        assert_eq!(policies.count.load(Ordering::Relaxed), 64);
    }

    #[test]
    fn threads_that_add_one_policy_at_once_share_its_table() {
        for round in 0..200 {
            let (policies, all) = (policies(), Barrier::new(4));
            thread::scope(|scope| {
                let seen = || {
                    all.wait();
                    let tables = (0..8).map(|number| policies.table(mixed(number + round)));
                    tables
                        .map(|table| ptr::from_ref(table).addr())
                        .collect::<Vec<_>>()
                };
                let threads = [(); 4].map(|()| scope.spawn(seen));
                let seen = threads.map(|thread| thread.join().unwrap());
                assert!(seen.iter().all(|one| *one == seen[0]));
            });
        }
    }
}
