use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    for slot in [1, 10, 50] {
        let logs = [0, 1, 7, 20].map(|units| {
            let quota = Quota::new(units, Duration::from_micros(100));
            let policy = Policy::new("log", &[units], quota.period());
            Log::new(policy, quota, slot, 100 + slot).unwrap()
        });
        let mut state = logs[0].fresh(Timestamp::from_micros(1_000));
        let mut other = state.clone();
        let mut random = Rng::with_seed(1);
        for turn in 0..200_000 {
            // Under one log after the other, on a clock that goes both ways.
            let log = &logs[turn / 1_000 % logs.len()];
            let width = [1_500, 30][turn / 100 % 2];
            let now = Timestamp::from_micros(1_000 + turn as u64 / 10 + random.u64(..width));
            let cost = random.u32(..23) / 3;
            let step = log.step(&mut state, cost, now);
            let admitted = log.judge(&other, cost, now);
            if admitted && cost > 0 {
                log.charge(&mut other, cost, now);
            }
            let snapshot = log.snapshot(&other, cost, admitted, now);
            assert_eq!(step, (admitted, snapshot));
            assert_eq!(format!("{state:?}"), format!("{other:?}"));
        }
    }
}

fn log(units: u64, micros: u64) -> Log {
    let quota = Quota::new(units, Duration::from_micros(micros));
    let policy = Policy::new("log", &[units, micros], quota.period());
    Log::new(policy, quota, 1, micros).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000 + micros)
}

/// How many units this log has left after so many microseconds.
fn left(log: &Log, state: &Admissions, micros: u64) -> u64 {
    let snapshot = log.look(state, 0, at(micros)).1;
    log.decision(&snapshot).remaining()
}

#[test]
fn a_debit_beyond_what_totals_tell_apart_makes_one_entry_of_all() {
    let is_exact = |number: u64| number as f64 as u64 == number;
    assert!([0, 1].iter().all(|more| is_exact(MAX_TOTAL + more)) && !is_exact(MAX_TOTAL + 2));
    for units in [5, MAX_UNITS] {
        let log = log(units, 1_000);
        let mut state = log.fresh(at(0));
        log.debit(&mut state, MAX_TOTAL - 1, at(0));
        let (mut fits, mut beyond) = (state.clone(), state.clone());
        log.debit(&mut fits, 1, at(100));
        assert_eq!(left(&log, &fits, 999), 0);
        assert_eq!(left(&log, &fits, 1_000), units - 1);
        log.debit(&mut beyond, 2, at(100));
        assert_eq!(left(&log, &beyond, 1_000), 0);
        assert_eq!(left(&log, &beyond, 1_100), units);
        // What is over has made room.
        log.debit(&mut state, 2, at(1_000));
        assert_eq!(left(&log, &state, 1_000), units - 2);
    }
}

#[test]
fn there_is_more_as_soon_as_the_first_entry_is_over_of_those_that_count_too_many() {
    let more_after = |log: &Log, state: &Admissions, (held, cost), micros| {
        let is_admitted = cost == 0 || log.fits(state, held + u64::from(cost), at(micros));
        let snapshot = log.snapshot_beside(state, held, (cost, is_admitted), at(micros));
        let decision = log.decision(&snapshot);
        decision.policies()[0].replenished_after().as_micros()
    };
    let log_of = |units| log(units, 1_000);
    let (log, smaller) = (log_of(5), log_of(3));
    let mut state = log.fresh(at(0));
    for micros in [0, 100, 200, 900] {
        assert!(log.step(&mut state, 1, at(micros)).0);
    }
    // Two are over, and are still in the list: nothing was admitted since.
    for held in [0, 1] {
        assert_eq!(more_after(&log, &state, (held, 5), 1_150), 50);
    }
    assert_eq!(more_after(&log, &state, (0, 0), 900), 100);
    // A quota that was made smaller is exceeded by one: two have to go, and a third for one held.
    assert_eq!(more_after(&smaller, &state, (0, 1), 900), 200);
    assert_eq!(more_after(&smaller, &state, (1, 1), 900), 300);
}
