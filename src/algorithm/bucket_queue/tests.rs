use crate::Quota;

use super::*;

const CAPACITY: u32 = 200;

/// A unit is ten parts, and each microsecond pays one.
fn queue() -> BucketQueue {
    let quota = Quota::new(1, Duration::from_micros(10));
    let bucket = DebtBucket::new("queue", quota, CAPACITY.into()).unwrap();
    BucketQueue::new(bucket, 1)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn admit(state: &mut OwingInTurns, micros: u64) -> DebtBucketSnapshot {
    let (admitted, snapshot) = queue().step(state, 1, at(micros));
    assert!(admitted);
    snapshot
}

fn withdraw(state: &mut OwingInTurns, admission: &DebtBucketSnapshot, micros: u64) {
    queue().withdraw(state, admission, 1, at(micros));
}

/// How many units are charged.
fn charged(state: &OwingInTurns, micros: u64) -> u32 {
    let fits = |units: &u32| queue().judge(state, *units, at(micros));
    CAPACITY - (0..=CAPACITY).rev().find(fits).unwrap()
}

/// The runs of dropped requests: when each begins and ends.
fn runs(state: &OwingInTurns) -> Vec<(u128, u128)> {
    let runs = state.dropped.iter().flat_map(|dropped| &dropped.runs);
    let mut runs: Vec<_> = runs.map(|run| (run.begins_at, run.ends_at)).collect();
    runs.sort_unstable();
    runs
}

#[test]
fn requests_dropped_in_the_middle_give_back_their_turns_with_those_behind_them() {
    let mut state = queue().fresh(at(1_000));
    let mut turns: Vec<_> = (0..6).map(|_| admit(&mut state, 1_000)).collect();
    for (dropped, remembered) in [
        (1, &[(1_010, 1_020)][..]),
        (3, &[(1_010, 1_020), (1_030, 1_040)]),
        (0, &[(1_000, 1_020), (1_030, 1_040)]),
        (4, &[(1_000, 1_020), (1_030, 1_050)]),
    ] {
        withdraw(&mut state, &turns[dropped], 1_000);
        assert_eq!(runs(&state), remembered);
        assert_eq!(charged(&state, 1_000), 6);
        // A request that comes meanwhile and is dropped changes nothing.
        turns.push(admit(&mut state, 1_000));
        assert_eq!(runs(&state), remembered);
        withdraw(&mut state, &turns.pop().unwrap(), 1_000);
    }
    withdraw(&mut state, &turns[5], 1_000);
    assert_eq!(runs(&state), [(1_000, 1_020)]);
    assert_eq!(charged(&state, 1_000), 3);
    withdraw(&mut state, &turns[2], 1_000);
    assert_eq!((charged(&state, 1_000), state.dropped), (0, None));
}

#[test]
fn turns_that_are_over_are_not_remembered() {
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 3].map(|()| admit(&mut state, 1_000));
    withdraw(&mut state, &turns[0], 1_000);
    let mut last_goes = state.clone();
    withdraw(&mut last_goes, &turns[2], 1_010);
    assert_eq!(last_goes.dropped, None);
    withdraw(&mut state, &turns[1], 1_009);
    assert_eq!(runs(&state), [(1_000, 1_020)]);
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 3].map(|()| admit(&mut state, 1_000));
    withdraw(&mut state, &turns[0], 1_000);
    withdraw(&mut state, &turns[1], 1_010);
    assert_eq!(runs(&state), [(1_010, 1_020)]);
}

#[test]
fn only_so_many_runs_are_remembered() {
    let mut state = queue().fresh(at(1_000));
    let turns: Vec<_> = (0..100).map(|_| admit(&mut state, 1_000)).collect();
    for turn in turns.iter().take(98).step_by(2) {
        withdraw(&mut state, turn, 1_000);
    }
    assert_eq!(runs(&state).len(), MAX_RUNS);
    // A run that joins two others needs no room.
    withdraw(&mut state, &turns[1], 1_000);
    assert_eq!(runs(&state).len(), MAX_RUNS - 1);
    assert_eq!(runs(&state)[0], (1_000, 1_030));
}

/// One of the same name with another quota.
fn other(units: u64, micros: u64) -> BucketQueue {
    let quota = Quota::new(units, Duration::from_micros(micros));
    BucketQueue::new(DebtBucket::new("queue", quota, 9).unwrap(), 0)
}

#[test]
fn turns_are_remembered_only_while_all_is_counted_at_one_rate() {
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 4].map(|()| admit(&mut state, 1_000));
    withdraw(&mut state, &turns[0], 1_000);
    assert_eq!(runs(&state), [(1_000, 1_010)]);
    assert!(other(2, 21).step(&mut state, 1, at(1_000)).0);
    assert_eq!(state.dropped, None);
    withdraw(&mut state, &turns[1], 1_000);
    assert_eq!(state.dropped, None);
}

/// A unit of the other numbers takes twice as long.
#[test]
fn a_turn_that_is_taken_back_by_other_numbers_gives_back_what_was_charged_for_it() {
    let other = other(1, 20);
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 4].map(|()| admit(&mut state, 1_000));
    let (_, last) = other.step(&mut state, 1, at(1_000));
    withdraw(&mut state, &turns[3], 1_000);
    assert_eq!(runs(&state), [(1_030, 1_040)]);
    other.withdraw(&mut state, &last, 1, at(1_000));
    assert_eq!((charged(&state, 1_000), state.dropped), (3, None));
}

#[test]
fn a_debit_lets_those_who_come_later_wait() {
    let mut state = queue().fresh(at(1_000));
    queue().debit(&mut state, 5, at(1_000));
    assert_eq!(charged(&state, 1_000), 5);
    let delay = queue().delay(&admit(&mut state, 1_000));
    assert_eq!(delay, Duration::from_micros(50));
}
