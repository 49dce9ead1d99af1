use crate::{Quota, algorithm::SlidingLog};

use super::*;

type Log = Settled<SlidingLog>;
type Snapshot = <Log as Limit>::Snapshot;
type State = <Log as KeyLimit>::State;

/// Ten units a day, held for so many microseconds at most.
fn log(held_at_most: u64) -> Log {
    let log = SlidingLog::new(Quota::per_day(10)).settled();
    log.held_at_most(Duration::from_micros(held_at_most))
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn hold(log: &Log, state: &mut State, units: u32, micros: u64) -> Snapshot {
    let (admitted, receipt) = log.step(state, units, at(micros));
    assert!(admitted);
    receipt
}

/// How many units are held, and how many are left.
fn held_and_left(log: &Log, state: &State, micros: u64) -> (u64, u64) {
    log.with_ended_spent(state, at(micros), |state, _| {
        let told = log.decision_of(&log.snapshot(state, 0, true, at(micros)));
        (state.held(), told.remaining())
    })
}

#[test]
fn units_are_held_for_a_microsecond_to_35_years() {
    let held_at_most = |duration| held_at_most_micros(duration, 1);
    let micros = Duration::from_micros;
    let too_short = held_at_most(Duration::from_nanos(999)).unwrap_err();
    assert!(matches!(too_short, ConfigError::HeldTooShort { .. }));
    assert!(held_at_most(micros(1)).is_ok());
    assert!(held_at_most(micros(MAX_HELD_AT_MOST_MICROS)).is_ok());
    for long in [micros(MAX_HELD_AT_MOST_MICROS + 1), Duration::MAX] {
        let too_long = held_at_most(long).unwrap_err();
        assert!(matches!(too_long, ConfigError::PeriodTooLong { .. }));
    }
}

#[test]
fn a_key_that_leaves_a_shared_bucket_owes_what_is_held_there_and_frees_none_of_it() {
    let log = log(100);
    let mut shared = log.fresh(at(10_000));
    let receipts =
        [(2, 10_000), (3, 10_100)].map(|(units, now)| hold(&log, &mut shared, units, now));
    let own = log.inherit(&shared, at(10_150));
    assert!(!receipts.iter().any(|receipt| log.holds(&own, receipt)));
    for (now, held) in [(10_150, 5), (10_299, 5), (10_300, 0)] {
        assert_eq!(held_and_left(&log, &own, now), (held, 5), "at {now} µs");
    }
}

#[test]
fn what_was_charged_at_once_frees_nothing_that_is_held() {
    let log = log(100);
    let mut state = log.fresh(at(10_000));
    hold(&log, &mut state, 3, 10_000);
    // What is held here was held in the shared bucket, and no receipt names it.
    let left_a_shared_bucket = log.inherit(&state, at(10_000));
    for mut state in [state, left_a_shared_bucket] {
        let (admitted, receipt) = log.unheld().step(&mut state, 2, at(10_010));
        assert!(admitted);
        let withdrawn = Ending::Withdrawn { cost: 2 };
        log.end(&mut state, &receipt, withdrawn, at(10_020));
        assert_eq!(held_and_left(&log, &state, 10_020), (3, 5));
    }
}

#[test]
fn a_limit_that_holds_for_longer_loses_nothing_of_two_generations() {
    let mut state = log(100).fresh(at(10_000));
    hold(&log(100), &mut state, 1, 10_000);
    hold(&log(100), &mut state, 2, 10_100);
    hold(&log(1_000), &mut state, 4, 10_150);
    for (now, held) in [(10_199, 7), (10_200, 6), (11_149, 6), (11_150, 0)] {
        assert_eq!(
            held_and_left(&log(100), &state, now),
            (held, 3),
            "at {now} µs"
        );
    }
}
