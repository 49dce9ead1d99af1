use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    for units in [0, 1, 7, 20] {
        let rule = SlidingWindow::new(Quota::new(units, Duration::from_micros(100)));
        let mut state = rule.fresh(Timestamp::from_micros(1_000));
        let mut other = state;
        let mut random = Rng::with_seed(1);
        for turn in 0..100_000 {
            let width = [1_500, 90][turn / 100 % 2];
            let now = Timestamp::from_micros(1_000 + turn as u64 / 4 + random.u64(..width));
            let cost = random.u32(..23) / 3;
            let step = rule.step(&mut state, cost, now);
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
