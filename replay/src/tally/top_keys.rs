//! The keys that are counted most often, by the algorithm Space-Saving (Metwally, Agrawal, El
//! Abbadi 2005).

use std::collections::HashMap;

use ahash::RandomState;

/// Counts keys in a fixed number of counters.
///
/// Every count is exact until there are more keys than counters. Then a new key takes over the
/// counter with the lowest count, with its count: so a count is too high by at most that much, and
/// every key that came more often than the lowest count has a counter.
#[derive(Debug)]
pub struct TopKeys {
    /// By their counts, the highest first.
    counters: Vec<Counter>,
    places: HashMap<u64, usize, RandomState>,
    max: usize,
    is_exact: bool,
}

/// How often a key came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    key_hash: u64,
    /// The key, as it is shown.
    pub shown: String,
    /// How often it came, at most.
    pub count: u64,
    /// How many of these may have been others.
    pub excess: u64,
}

impl TopKeys {
    /// Starts with no keys and at most `max` counters.
    pub fn new(max: usize) -> Self {
        Self {
            counters: Vec::new(),
            places: HashMap::default(),
            max: max.max(1),
            is_exact: true,
        }
    }

    /// Counts a key once more; `shown` makes the text of a new one.
    pub fn add(&mut self, key_hash: u64, shown: impl FnOnce() -> String) {
        let place = match self.places.get(&key_hash) {
            Some(place) => *place,
            None => self.place_of_new(key_hash, shown()),
        };
        let count = self.counters[place].count;
        // Swap it with the first counter of the same count, which keeps the list sorted.
        let first = (self.counters).partition_point(|counter| counter.count > count);
        self.counters[place].count += 1;
        self.counters.swap(first, place);
        for moved in [first, place] {
            self.places.insert(self.counters[moved].key_hash, moved);
        }
    }

    fn place_of_new(&mut self, key_hash: u64, shown: String) -> usize {
        if self.counters.len() < self.max {
            self.counters.push(Counter {
                key_hash,
                shown,
                count: 0,
                excess: 0,
            });
        } else if let Some(lowest) = self.counters.last_mut() {
            self.is_exact = false;
            self.places.remove(&lowest.key_hash);
            *lowest = Counter {
                key_hash,
                shown,
                count: lowest.count,
                excess: lowest.count,
            };
        }
        self.counters.len() - 1
    }

    /// Those with the highest counts, the highest first.
    pub fn top(&self, many: usize) -> &[Counter] {
        &self.counters[..many.min(self.counters.len())]
    }

    /// Whether there were no more keys than counters, so that all counts are exact.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(max: usize, keys: &[u64]) -> TopKeys {
        let mut top = TopKeys::new(max);
        for key in keys {
            top.add(*key, || format!("key {key}"));
        }
        top
    }

    #[test]
    fn counts_are_exact_while_there_are_no_more_keys_than_counters() {
        let top = counted(3, &[1, 2, 3, 3, 2, 3]);
        let counted: Vec<_> = top.top(9).iter().map(|it| (&*it.shown, it.count)).collect();
        assert_eq!(counted, [("key 3", 3), ("key 2", 2), ("key 1", 1)]);
        assert!(top.is_exact() && top.top(9).iter().all(|it| it.excess == 0));
    }

    #[test]
    fn a_frequent_key_keeps_its_counter_in_a_flood_of_keys_that_come_once() {
        let keys: Vec<u64> = (0..10_000)
            .map(|it| if it % 4 == 0 { 77 } else { 1_000 + it })
            .collect();
        let top = counted(20, &keys);
        let first = &top.top(1)[0];
        assert_eq!(first.shown, "key 77");
        assert!(!top.is_exact());
        assert!(first.count >= 2_500 && first.count - first.excess <= 2_500);
        // The others came once: no more than that is certain.
        let others = top.top(20)[1..].iter();
        assert!(others.clone().all(|it| it.count - it.excess <= 1));
        assert!(others.clone().any(|it| it.excess > 100));
        // Of 7 500 others each counter has a twentieth at most.
        assert!(top.top(20)[19].count <= 10_000 / 20);
        let total: u64 = top.top(20).iter().map(|it| it.count).sum();
        assert_eq!(total, 10_000);
    }

    #[test]
    fn places_are_right_after_every_step() {
        let mut top = TopKeys::new(5);
        for step in 0_u64..2_000 {
            top.add(step * step % 13, String::new);
            assert!(
                top.counters
                    .is_sorted_by(|one, next| one.count >= next.count)
            );
            assert_eq!(top.places.len(), top.counters.len());
            for (place, counter) in top.counters.iter().enumerate() {
                assert_eq!(top.places[&counter.key_hash], place);
            }
        }
    }
}
