use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    for units in [0, 1, 7, 20] {
        let rule = SlidingWindow::new(Quota::new(units, Duration::from_micros(100)));
        let mut state = rule.fresh(Timestamp::from_micros(1_000));
        let mut other = state.clone();
        let mut random = Rng::with_seed(1);
        for turn in 0..100_000 {
            let width = [1_500, 90][turn / 100 % 2];
            let now = Timestamp::from_micros(1_000 + turn as u64 / 4 + random.u64(..width));
            let cost = random.u32(..23) / 3;
            let step = rule.step(&mut state, cost, now);
            rule.mend(&mut other, now);
            let admitted = rule.judge(&other, cost, now);
            if admitted && cost > 0 {
                rule.charge(&mut other, cost, now);
            }
            let snapshot = rule.snapshot(&other, cost, admitted, now);
            assert_eq!(step, (admitted, snapshot));
            assert_eq!(state, other);
        }
    }
}

#[test]
fn windows_are_read_only_if_they_have_a_period() {
    let rule = SlidingWindow::new(Quota::per_second(5));
    let is_read = |period| rule.state(&[120, 1, 2, period, 0, 0, 0, 0]).is_some();
    assert!(is_read(60));
    assert!(!is_read(0));
}

/// As under a larger quota of the same name.
#[test]
fn a_previous_window_too_large_to_weigh_exactly_weighs_nearly_as_much() {
    let estimate = Estimate {
        start_micros: 0,
        ticks_covered: 999_999_999,
        previous: 1 << 40,
        current: 5,
        now_micros: 1,
        ticks_per_period: 1_000_000_000,
        tick_micros: 1,
    };
    assert_eq!(estimate.units(), (1 << 40) - 1_099 + 5);
}

#[test]
fn windows_matter_to_others_until_they_weigh_nothing_and_weigh_as_much_where_they_are_moved() {
    let rule = WindowRule { period_micros: 100 };
    let windows = |previous, current| TwoWindows {
        stamp: 1_030,
        previous,
        current,
    };
    let matters_until = |previous, current| rule.matters_until(windows(previous, current));
    assert_eq!(matters_until(0, 0), 1_030);
    assert_eq!(matters_until(10, 0), 1_100);
    assert_eq!(matters_until(0, 1), 1_200);
    assert_eq!(matters_until(10, 1), 1_200);
    // Seven tenths of the previous window are covered.
    let moved = rule.moved_to(windows(10, 1), Timestamp::from_micros(555));
    let TwoWindows {
        stamp,
        previous,
        current,
    } = moved;
    assert_eq!((stamp, previous, current), (555, 0, 8));
}
