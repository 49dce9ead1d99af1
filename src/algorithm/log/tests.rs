use std::time::Duration;

use crate::algorithm::fixed_window::MAX_UNITS;

use super::*;

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
    log.status(state, 0, true, at(micros)).remaining
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
