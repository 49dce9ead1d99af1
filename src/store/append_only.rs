//! A map that only grows, and is read without a lock.

use std::sync::OnceLock;

/// How many nodes may follow one.
const BASE: usize = 16;

/// Values by their keys, in a tree.
///
/// A new key takes the first free node on the path that the digits of its hash give. Of ten
/// thousand keys most are three or four steps from the first. A reference to a value stays valid
/// without a lock, so that a decision neither locks nor counts references.
///
/// All that threads agree on is the standard library's `OnceLock`: there is no order of our own for
/// a model checker to explore.
pub(super) struct AppendOnlyMap<K, V> {
    first: OnceLock<Node<K, V>>,
}

struct Node<K, V> {
    key: K,
    value: V,
    /// One for each digit.
    next: [OnceLock<Box<Node<K, V>>>; BASE],
}

impl<K, V> AppendOnlyMap<K, V> {
    pub(super) const fn new() -> Self {
        Self {
            first: OnceLock::new(),
        }
    }

    /// The key that was added first, with its value.
    #[inline]
    pub(super) fn first(&self) -> Option<(&K, &V)> {
        self.first.get().map(|node| (&node.key, &node.value))
    }

    /// Calls the closure with every value.
    pub(super) fn for_each(&self, mut call: impl FnMut(&V)) {
        let mut nodes: Vec<_> = self.first.get().into_iter().collect();
        while let Some(node) = nodes.pop() {
            call(&node.value);
            let next = node.next.iter().filter_map(OnceLock::get);
            nodes.extend(next.map(|node| &**node));
        }
    }
}

impl<K: Copy + Eq, V> AppendOnlyMap<K, V> {
    /// The value of a key with this hash, which is made if there is none. Threads that look for one
    /// key at once are given the same value.
    pub(super) fn get_or_add(&self, (key, hash): (K, u64), make: impl Fn() -> V) -> &V {
        let new_node = || Node {
            key,
            value: make(),
            next: [const { OnceLock::new() }; BASE],
        };
        let (mut node, mut digits) = (self.first.get_or_init(new_node), hash);
        // Keys of one hash follow each other behind its last digit.
        while node.key != key {
            let next = &node.next[digits as usize % BASE];
            node = next.get_or_init(|| Box::new(new_node()));
            digits /= BASE as u64;
        }
        &node.value
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Barrier, thread};

    use super::*;

    impl<K: Copy + Eq, V> AppendOnlyMap<K, V> {
        /// How many steps it takes to find a key.
        fn steps(&self, (key, hash): (K, u64)) -> usize {
            let (mut node, mut digits) = (self.first.get().expect("the first"), hash);
            for steps in 0.. {
                if node.key == key {
                    return steps;
                }
                node = node.next[digits as usize % BASE]
                    .get()
                    .expect("it was added");
                digits /= BASE as u64;
            }
            unreachable!("the steps do not end")
        }
    }

    /// As good as random.
    fn mixed(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 3
    }

    #[test]
    fn ten_thousand_keys_are_found_in_a_few_steps() {
        let map = AppendOnlyMap::new();
        let added = Cell::new(0);
        for _ in 0..2 {
            for key in 0..10_000_u64 {
                let value = map.get_or_add((key, mixed(key)), || {
                    added.set(added.get() + 1);
                    key
                });
                assert_eq!(*value, key);
            }
        }
        let steps: Vec<_> = (0..10_000)
            .map(|key| map.steps((key, mixed(key))))
            .collect();
        let sum: usize = steps.iter().sum();
        assert!(sum < 40_000, "{sum} steps");
        assert!(steps.iter().max() <= Some(&8));
        let mut values = 0;
        map.for_each(|_| values += 1);
        assert_eq!([added.get(), values], [10_000; 2]);
        assert_eq!(map.first(), Some((&0, &0)));
    }

    #[test]
    fn keys_whose_hashes_are_alike_are_told_apart() {
        let map = AppendOnlyMap::new();
        // All but the last digits that are looked at, and none at all.
        let alike = (0..64).map(|bit| (bit, 1 << bit));
        let keys: Vec<_> = alike.chain((64..80).map(|key| (key, 7))).collect();
        for _ in 0..2 {
            for key in &keys {
                assert_eq!(*map.get_or_add(*key, || key.0), key.0);
            }
        }
    }

    #[test]
    fn threads_that_add_one_key_at_once_share_its_value() {
        for round in 0..200 {
            let (map, all) = (AppendOnlyMap::new(), Barrier::new(4));
            thread::scope(|scope| {
                let seen = || {
                    all.wait();
                    let values =
                        (0..8).map(|key| map.get_or_add((key, mixed(key + round)), || [0_u8]));
                    values
                        .map(|value| value.as_ptr() as usize)
                        .collect::<Vec<_>>()
                };
                let threads = [(); 4].map(|()| scope.spawn(seen));
                let seen = threads.map(|thread| thread.join().unwrap());
                assert!(seen.iter().all(|one| *one == seen[0]));
            });
            let mut values = 0;
            map.for_each(|_| values += 1);
            assert_eq!(values, 8);
        }
    }
}
