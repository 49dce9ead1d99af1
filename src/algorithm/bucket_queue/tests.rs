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

#[test]
fn turns_of_before_a_step_back_give_nothing_back_after_it() {
    let mut state = queue().fresh(at(10_000));
    let turns = [(); 3].map(|()| admit(&mut state, 10_000));
    withdraw(&mut state, &turns[0], 10_000);
    assert_eq!(runs(&state), [(10_000, 10_010)]);
    queue().mend(&mut state, at(5_000));
    assert_eq!(state.dropped, None);
    // The same instant comes once more. Of two that wait the second is dropped.
    admit(&mut state, 10_000);
    let last = admit(&mut state, 10_000);
    withdraw(&mut state, &last, 10_000);
    assert_eq!(charged(&state, 10_000), 1);
}

#[test]
fn turns_are_remembered_only_while_all_is_counted_under_one_plan() {
    let other = {
        let quota = Quota::new(1, Duration::from_micros(20));
        BucketQueue::new(DebtBucket::new("queue", quota, 9).unwrap(), 0)
    };
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 4].map(|()| admit(&mut state, 1_000));
    withdraw(&mut state, &turns[0], 1_000);
    assert_eq!(runs(&state), [(1_000, 1_010)]);
    assert!(other.step(&mut state, 1, at(1_000)).0);
    assert_eq!(state.dropped, None);
    withdraw(&mut state, &turns[1], 1_000);
    assert_eq!(state.dropped, None);
}

#[test]
fn a_debit_lets_those_who_come_later_wait() {
    let mut state = queue().fresh(at(1_000));
    queue().debit(&mut state, 5, at(1_000));
    assert_eq!(charged(&state, 1_000), 5);
    let delay = queue().delay(&admit(&mut state, 1_000));
    assert_eq!(delay, Duration::from_micros(50));
}

#[test]
fn a_turn_of_before_a_step_back_is_not_remembered_after_it() {
    let mut state = queue().fresh(at(10_000));
    let turns = [(); 3].map(|()| admit(&mut state, 10_000));
    queue().mend(&mut state, at(5_000));
    withdraw(&mut state, &turns[1], 5_000);
    assert_eq!(state.dropped, None);
}

fn told(state: &OwingInTurns) -> Vec<u64> {
    let mut numbers = Vec::new();
    queue().numbers(state, &mut |number| numbers.push(number));
    numbers
}

#[test]
fn dropped_requests_are_among_the_numbers_until_their_turns_are_over() {
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 6].map(|()| admit(&mut state, 1_000));
    assert_eq!(told(&state).last(), Some(&0));
    for dropped in [0, 2, 3] {
        withdraw(&mut state, &turns[dropped], 1_000);
    }
    let numbers = told(&state);
    assert_eq!(numbers[numbers.len() - 5..], [50, 1, 20, 2, 2]);
    assert_eq!(queue().state(&numbers), Some(state.clone()));
    admit(&mut state, 1_010);
    let numbers = told(&state);
    assert_eq!(numbers[numbers.len() - 3..], [30, 2, 1]);
}

#[test]
fn runs_that_make_no_sense_are_not_read() {
    let mut state = queue().fresh(at(1_000));
    let turns = [(); 3].map(|()| admit(&mut state, 1_000));
    withdraw(&mut state, &turns[0], 1_000);
    let numbers = told(&state);
    let owing = &numbers[..numbers.len() - 3];
    let is_read = |owing: &[u64], runs: &[u64]| queue().state(&[owing, runs].concat()).is_some();
    assert!(is_read(owing, &[20, 1, 1]));
    let nobody_behind = [0, 1, 1];
    let paid_off = [30, 1, 1];
    let without_units = [20, 0, 1];
    let before_time_began = [20, 1 << 53, 1];
    let more_than_there_are = [20, 1, u64::MAX];
    for runs in [
        nobody_behind,
        paid_off,
        without_units,
        before_time_began,
        more_than_there_are,
    ] {
        assert!(!is_read(owing, &runs), "{runs:?}");
    }
    let so_many = |count: u64| {
        let mut runs = [20, 1].repeat(count as usize);
        runs.push(count);
        runs
    };
    let most = MAX_RUNS as u64;
    assert!(is_read(owing, &so_many(most)));
    assert!(!is_read(owing, &so_many(most + 1)));
    let further_plan = [&owing[..6], &[1, 1_000, 2_000, 1_000]].concat();
    assert!(is_read(&further_plan, &[0]));
    assert!(!is_read(&further_plan, &[20, 1, 1]));
}
