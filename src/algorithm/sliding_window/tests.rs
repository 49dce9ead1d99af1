use super::*;

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
