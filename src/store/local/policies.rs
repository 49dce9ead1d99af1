//! A table for each policy, found without a lock.

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::algorithm::{Algorithm, ConfigId, PolicyId};

use super::{Usage, table::Table};

/// At this many policies a warning is logged: so many are made up from requests, not written down.
const MANY: usize = 1_000;

/// The tables of a store, in a tree that only grows: one node for each policy that was ever used
/// with it.
///
/// A new policy takes the first free node on the path that the digits of its id give. Of ten
/// thousand policies most are three or four steps from the first, and none is further than an id
/// has digits. A reference to a table stays valid without a lock, so that a decision neither locks
/// the list of policies nor counts references.
pub struct Policies<K, S> {
    first: OnceLock<Node<K, S>>,
    count: AtomicUsize,
    max_keys: usize,
}

struct Node<K, S> {
    policy: PolicyId,
    /// The configuration that the policy had first.
    config: ConfigId,
    table: Table<K, S>,
    /// One for each digit.
    next: [OnceLock<Box<Node<K, S>>>; BASE],
}

impl<K, S> Policies<K, S> {
    /// No tables yet, each of which will be for so many keys.
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            first: OnceLock::new(),
            count: AtomicUsize::new(0),
            max_keys,
        }
    }

    /// How full the tables are.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        if let Some(first) = self.first.get() {
            first.add_to(&mut usage);
        }
        usage
    }

    #[inline]
    pub(super) fn table<A: Algorithm<State = S>>(&self, algorithm: &A) -> &Table<K, S> {
        match self.first.get() {
            // Configuration ids are unique across policies.
            Some(node) if node.config.id() == algorithm.config_id().id() => &node.table,
            _ => self.find(algorithm),
        }
    }

    #[inline(never)]
    fn find<A: Algorithm<State = S>>(&self, algorithm: &A) -> &Table<K, S> {
        let (policy, config) = (algorithm.policy_id(), algorithm.config_id());
        let node = self.node(policy, config);
        if node.config.id() != config.id() {
            node.table.add_configuration(node.config);
            node.table.add_configuration(config);
        }
        &node.table
    }

    /// The node of a policy, which is made if there is none.
    fn node(&self, policy: PolicyId, config: ConfigId) -> &Node<K, S> {
        let number = Cell::new(0);
        let new_node = || {
            number.set(1 + self.count.fetch_add(1, Ordering::Relaxed));
            Node {
                policy,
                config,
                table: Table::new(self.max_keys),
                next: [const { OnceLock::new() }; BASE],
            }
        };
        let mut node = self.first.get_or_init(new_node);
        for digit in digits(policy) {
            // After the last digit it is this one.
            if node.policy == policy {
                break;
            }
            node = node.next[digit].get_or_init(|| Box::new(new_node()));
        }
        if number.get() == MANY {
            tracing::warn!(
                target: "tollgate::local_store",
                policies = MANY,
                "a store has many policies, and keeps a table for each as long as it lives: give one whose numbers change a name, \
                 under which it stays one, and make none up from requests"
            );
        }
        node
    }
}

impl<K, S> Node<K, S> {
    /// Counts what is used by this policy and by all behind it.
    fn add_to(&self, usage: &mut Usage) {
        usage.keys += self.table.keys();
        usage.overflow_decisions += self.table.overflow_decisions();
        for next in self.next.iter().filter_map(OnceLock::get) {
            next.add_to(usage);
        }
    }
}

/// In which the [digits] of an id are.
const BASE: usize = 16;

/// The digits of an id, of which two ids have at least one that differs.
fn digits(policy: PolicyId) -> impl Iterator<Item = usize> {
    let places = (0..u64::BITS).step_by(4);
    places.map(move |place| (policy.as_u64() >> place) as usize % BASE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::algorithm::{MinInterval, Policy};

    use super::*;

    /// How many steps it takes to find a policy.
    fn steps<S>(policies: &Policies<u64, S>, policy: PolicyId) -> usize {
        let mut node = policies.first.get().expect("the first");
        for (steps, digit) in digits(policy).enumerate() {
            if node.policy == policy {
                return steps;
            }
            node = node.next[digit].get().expect("it was made");
        }
        panic!("further than its digits lead")
    }

    #[test]
    fn ten_thousand_policies_are_found_in_a_few_steps() {
        let policies = Policies::<u64, ()>::new(1);
        let ids = (0..10_000).map(|n| Policy::new("unnamed", &[n], Duration::ZERO));
        let ids: Vec<Policy> = ids.collect();
        for policy in &ids {
            policies.node(policy.id(), policy.config_id());
        }
        let steps: Vec<usize> = ids
            .iter()
            .map(|policy| steps(&policies, policy.id()))
            .collect();
        let (sum, most) = (steps.iter().sum::<usize>(), steps.iter().max());
        assert!(sum < 4 * ids.len(), "{sum} steps");
        assert!(most <= Some(&8), "{most:?}");
        assert_eq!(policies.count.load(Ordering::Relaxed), ids.len());
    }

    #[test]
    fn policies_whose_ids_are_alike_are_told_apart() {
        let policies = Policies::<u64, ()>::new(1);
        let config = MinInterval::new(Duration::from_secs(1)).config_id();
        // All but the last digits that are looked at.
        let ids: Vec<PolicyId> = (0..64).map(|bit| PolicyId::from_bits(1 << bit)).collect();
        for _ in 0..2 {
            for id in &ids {
                assert_eq!(policies.node(*id, config).policy, *id);
            }
        }
        assert_eq!(policies.count.load(Ordering::Relaxed), ids.len());
    }
}
