use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    let logs = [(0, 1), (1, 1), (7, 1), (20, 10), (20, 50)].map(|(units, slot)| {
        let quota = Quota::new(units, Duration::from_micros(100));
        let policy = Policy::new("log", &[units], quota.period());
        Log::new(policy, quota, slot, 100 + slot).unwrap()
    });
    let mut state = logs[0].fresh(Timestamp::from_micros(1_000));
    let mut other = state.clone();
    let mut random = Rng::with_seed(1);
    for turn in 0..500_000 {
        // Under one log after the other, on a clock that goes both ways.
        let log = &logs[turn / 1_000 % logs.len()];
        let width = [1_500, 30][turn / 100 % 2];
        let now = Timestamp::from_micros(1_000 + turn as u64 / 10 + random.u64(..width));
        let cost = random.u32(..23) / 3;
        let step = log.step(&mut state, cost, now);
        log.mend(&mut other, now);
        let admitted = log.judge(&other, cost, now);
        if admitted && cost > 0 {
            log.charge(&mut other, cost, now);
        }
        let snapshot = log.snapshot(&other, cost, admitted, now);
        assert_eq!(step, (admitted, snapshot));
        assert_eq!(format!("{state:?}"), format!("{other:?}"));
    }
}

/// Processes of other builds share a state by it.
#[test]
fn an_id_tells_numbers_apart_and_is_the_same_in_every_build() {
    let id = |slot_micros| {
        let reach = Reach {
            micros: 1_000_000,
            units: 5,
            slot_micros,
        };
        reach.id()
    };
    assert_eq!(id(1), 0x0016_bbfb_e7c9_1aa1);
    assert_eq!(id(1_000), 0x000a_90da_76c8_ef09);
}

fn log(units: u64, micros: u64) -> Log {
    let quota = Quota::new(units, Duration::from_micros(micros));
    let policy = Policy::new("log", &[units, micros], quota.period());
    Log::new(policy, quota, 1, micros).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000 + micros)
}

/// How many units this plan has left after so many microseconds.
fn left(log: &Log, state: &LogState, micros: u64) -> u64 {
    let snapshot = log.look(state, 0, at(micros)).1;
    log.decision(&snapshot).remaining()
}

#[test]
fn others_are_kept_until_none_of_their_entries_matters() {
    let [long, short] = [log(5, 1_000), log(5, 300)];
    // One is admitted under the first plan, and later under the second, once or more often.
    let others = |plans: [&Log; 2], later: &[u64]| {
        let mut state = plans[0].fresh(at(0));
        assert!(plans[0].step(&mut state, 1, at(0)).0);
        for micros in later {
            assert!(plans[1].step(&mut state, 1, at(*micros)).0);
        }
        state
            .retention
            .others
            .map(|(reach, until)| (reach.micros, until))
    };
    let until = at(1_000).as_micros();
    for later in [&[999][..], &[100, 999], &[999, 999]] {
        assert_eq!(others([&long, &short], later), Some((1_000, until)));
    }
    for later in [&[1_000][..], &[100, 1_000], &[999, 1_000]] {
        assert_eq!(others([&long, &short], later), None);
    }
    let until = at(300).as_micros();
    assert_eq!(others([&short, &long], &[100, 299]), Some((300, until)));
    assert_eq!(others([&short, &long], &[100, 300]), None);
    // What was given back matters to no plan.
    let mut state = long.fresh(at(0));
    assert!(long.step(&mut state, 1, at(0)).0);
    long.refund(&mut state, 1, at(0));
    assert!(short.step(&mut state, 1, at(100)).0);
    assert_eq!(state.retention.others, None);
}

#[test]
fn a_debit_beyond_what_totals_tell_apart_makes_one_entry_of_all() {
    let few = u64::from(u32::MAX);
    let is_exact = |number: u64| number as f64 as u64 == number;
    assert!([0, 1].iter().all(|more| is_exact(MAX_TOTAL + more)) && !is_exact(MAX_TOTAL + 2));
    let most_units = MAX_UNITS;
    for (units, most, once_over) in [(5, few, 4), (most_units, MAX_TOTAL, most_units - 1)] {
        let log = log(units, 1_000);
        let mut state = log.fresh(at(0));
        log.debit(&mut state, most - 1, at(0));
        let (mut fits, mut beyond) = (state.clone(), state.clone());
        log.debit(&mut fits, 1, at(100));
        assert_eq!(left(&log, &fits, 999), 0);
        assert_eq!(left(&log, &fits, 1_000), once_over);
        log.debit(&mut beyond, 2, at(100));
        assert_eq!(left(&log, &beyond, 1_000), 0);
        assert_eq!(left(&log, &beyond, 1_100), units);
        // What is over has made room.
        log.debit(&mut state, 2, at(1_000));
        assert_eq!(left(&log, &state, 1_000), units - 2);
    }
}

#[test]
fn a_debit_counts_all_entries_that_matter_to_another_plan() {
    let [long, short] = [log(5, 1_000), log(5, 100)];
    let mut state = long.fresh(at(0));
    long.debit(&mut state, u64::from(u32::MAX) - 1, at(0));
    assert!(short.step(&mut state, 1, at(100)).0);
    short.debit(&mut state, 1, at(200));
    assert_eq!(left(&long, &state, 1_000), 0);
    assert_eq!(left(&short, &state, 300), 5);
}

#[test]
fn beside_others_no_more_units_are_kept_than_the_largest_quota_has() {
    let [long, short] = [log(5, 1_000), log(5, 300)];
    let mut state = long.fresh(at(0));
    assert!(long.step(&mut state, 1, at(0)).0);
    for micros in [100, 101, 102, 103, 400, 401, 402, 403] {
        assert!(short.step(&mut state, 1, at(micros)).0);
        assert!(state.all().units <= 5);
    }
    assert_eq!(left(&long, &state, 999), 0);
    assert_eq!(left(&short, &state, 403), 1);
}

#[test]
fn a_log_is_moved_back_only_if_it_is_more_than_a_span_ahead() {
    let log = log(5, 1_000);
    let mut state = log.fresh(at(5_000));
    assert!(log.step(&mut state, 5, at(5_000)).0);
    let mut moved = state.clone();
    log.mend(&mut state, at(4_000));
    assert_eq!(
        [5_999, 6_000].map(|micros| left(&log, &state, micros)),
        [0, 5]
    );
    log.mend(&mut moved, at(3_999));
    assert_eq!(
        [4_998, 4_999].map(|micros| left(&log, &moved, micros)),
        [0, 5]
    );
}

#[test]
fn a_step_back_moves_what_matters_to_another_plan_too() {
    let [long, short] = [log(5, 1_000), log(5, 300)];
    let mut state = long.fresh(at(0));
    for (plan, micros) in [(&long, 0), (&short, 900)] {
        assert!(plan.step(&mut state, 1, at(micros)).0);
    }
    short.mend(&mut state, at(500));
    assert_eq!([599, 600].map(|micros| left(&long, &state, micros)), [3, 4]);
    assert_eq!(
        [799, 800].map(|micros| left(&short, &state, micros)),
        [4, 5]
    );
    let until = state.retention.others.map(|(_, until)| until);
    assert_eq!(until, Some(at(600).as_micros()));
}

#[test]
fn there_is_more_as_soon_as_the_first_entry_is_over_of_those_that_count_too_many() {
    let more_after = |log: &Log, state: &LogState, (held, cost), micros| {
        let decision = log.decision(&log.look_beside(state, held, cost, at(micros)).1);
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
