//! One part of a table: entries under one lock, and the hand that goes round to drop idle ones.

use hashbrown::HashTable;

use crate::{algorithm::Algorithm, clock::Timestamp, store::Verdict};

/// How many calls for known keys go by between two slices.
const CALLS_PER_SLICE: u32 = 32;
/// A table this much larger than its entries is made smaller.
const SPARSE: usize = 8;
const SMALLEST: usize = 64;

pub(super) struct Shard<K, S> {
    pub(super) entries: HashTable<(K, S)>,
    /// The bucket that the next slice begins with.
    hand: usize,
    calls: u32,
}

impl<K, S> Shard<K, S> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashTable::new(),
            hand: 0,
            calls: 0,
        }
    }

    /// Whether a call for a known key should visit a few buckets: mostly not.
    #[inline]
    pub(super) fn slice_is_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS_PER_SLICE)
    }

    /// Visits so many buckets and drops the states that said no more than fresh ones then; says how many went.
    #[cold]
    pub(super) fn forget_idle<A: Algorithm<State = S>>(
        &mut self,
        algorithm: &A,
        idle_since: Timestamp,
        buckets: usize,
        hash: impl Fn(&K) -> u64,
    ) -> usize {
        let before = self.entries.len();
        let all = self.entries.num_buckets();
        if before == 0 && all <= SMALLEST {
            return 0;
        }
        for _ in 0..buckets.min(all) {
            if let Ok(entry) = self.entries.get_bucket_entry(self.hand)
                && algorithm.is_fresh(&entry.get().1, idle_since)
            {
                entry.remove();
            }
            self.hand += 1;
            if self.hand >= all {
                self.hand = 0;
                if all > SMALLEST && self.entries.len() * SPARSE < all {
                    let room = self.entries.len() * 2;
                    self.entries.shrink_to(room, |(key, _)| hash(key));
                    break;
                }
            }
        }
        before - self.entries.len()
    }
}

/// Decides about a cost on one state, in place.
#[inline(always)]
pub(super) fn step<A: Algorithm>(
    algorithm: &A,
    state: &mut A::State,
    cost: u32,
    now: Timestamp,
) -> Verdict<A::Snapshot> {
    let (admitted, snapshot) = algorithm.step(state, cost, now);
    Verdict { admitted, snapshot }
}
