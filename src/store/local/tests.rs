//! Tests of a table's inside, which no caller can see.

use std::time::Duration;

use crate::{
    Quota,
    algorithm::{FixedWindow, KeyLimit, MinInterval},
    clock::{ManualClock, Timestamp},
    store::Ask,
};

use super::{sweep::SLOTS_FOR_KNOWN_KEYS, table::Table};

const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn slots<K, S>(table: &Table<K, S>) -> usize {
    let shards = table.shards.lock_all();
    shards.map(|shard| shard.entries.slots()).sum()
}

fn admits<A: KeyLimit>(table: &Table<u64, A::State>, rule: &A, key: u64, now: Timestamp) -> bool {
    let verdict = table.decide(rule, &key, Ask::Charge(1), &ManualClock::at(now));
    verdict.admitted
}

#[test]
fn a_table_whose_keys_have_left_is_small_again() {
    for left in [0, 1, 100] {
        let algorithm = MinInterval::new(Duration::from_secs(1));
        let table = Table::new(1_000_000);
        for key in 0..200_000_u64 {
            assert!(admits(&table, &algorithm, key, START));
        }
        let at_most = slots(&table);
        assert!(at_most >= 200_000);
        let later = START.saturating_add(Duration::from_secs(1));
        for call in 0..4_000_000 {
            if call < left {
                assert!(admits(&table, &algorithm, call, later));
            }
            admits(&table, &algorithm, 0, later);
        }
        assert!(table.shards.keys() <= 101);
        let left = slots(&table);
        assert!(left * 20 < at_most, "{left} of {at_most}");
    }
}

/// What `LocalStore` says of its memory.
#[test]
fn a_full_table_is_three_quarters_full_and_stays_so_while_keys_come_and_go() {
    const MAX_KEYS: usize = 100_000;
    let algorithm = MinInterval::new(Duration::from_secs(1));
    let table = Table::new(MAX_KEYS);
    let mut now = START;
    let mut newcomers = 0_u64..;
    for _ in 0..20 {
        for key in newcomers.by_ref().take(MAX_KEYS) {
            admits(&table, &algorithm, key, now);
        }
        assert!(table.shards.keys() > MAX_KEYS / 2);
        assert!(slots(&table) * 3 <= MAX_KEYS * 4, "{}", slots(&table));
        now = now.saturating_add(Duration::from_secs(1));
    }
}

/// A hundred thousand keys that are idle at this instant.
fn idle_keys() -> (FixedWindow, Table<u64, FixedState>, Timestamp) {
    let algorithm = FixedWindow::new(Quota::per_minute(5));
    let table = Table::new(1_000_000);
    for key in 0..100_000 {
        admits(&table, &algorithm, key, START);
    }
    let idle = START.saturating_add(Duration::from_secs(120));
    (algorithm, table, idle)
}

type FixedState = <FixedWindow as KeyLimit>::State;

#[test]
fn a_slice_visits_a_few_buckets_and_no_more() {
    let (algorithm, table, idle) = idle_keys();
    let mut keys = table.shards.keys();
    for key in 0..200_000 {
        admits(&table, &algorithm, key % 3_000, idle);
        let gone = keys.saturating_sub(table.shards.keys());
        assert!(gone <= SLOTS_FOR_KNOWN_KEYS, "{gone} in one call");
        keys = table.shards.keys();
    }
}

/// As by a caller who peeks before each check: every second call.
#[test]
fn looks_take_no_slice_from_the_decisions_between_them() {
    let (algorithm, table, idle) = idle_keys();
    let clock = ManualClock::at(idle);
    for _ in 0..1_000_000 {
        admits(&table, &algorithm, 0, idle);
        table.decide(&algorithm, &0, Ask::Look(1), &clock);
    }
    assert_eq!(table.shards.keys(), 1);
}

#[test]
fn hashes_are_seeded_at_random_for_each_table() {
    let [one, other] = [(); 2].map(|()| Table::<u64, ()>::new(10));
    let same = (0..1_000).filter(|key| one.shards.hash(key) == other.shards.hash(key));
    assert_eq!(same.count(), 0);
}
