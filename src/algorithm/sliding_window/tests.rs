use super::*;

/// As under a larger quota of the same name.
#[test]
fn a_previous_window_too_large_to_weigh_exactly_weighs_nearly_as_much() {
    let window = SlidingWindow::new(Quota::new(5, std::time::Duration::from_secs(1_000)));
    assert_eq!(window.ticks_per_period, 1_000_000_000);
    let counters = Counters {
        start: 0,
        ticks_covered: 999_999_999,
        previous: 1 << 40,
        current: 5,
        now: Timestamp::from_micros(1),
    };
    assert_eq!(window.estimate(counters).units(), (1 << 40) - 1_099 + 5);
}
