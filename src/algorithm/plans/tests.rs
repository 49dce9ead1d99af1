use std::time::Duration;

use super::next_of;
use crate::{
    Quota,
    algorithm::{Algorithm, FixedWindow, Scripted, SlidingWindow, TokenBucket},
    clock::Timestamp,
};

const NOW: Timestamp = Timestamp::from_micros(1_000_050);

fn five_in<A>(plan: impl Fn(Quota) -> A, period_micros: u64) -> A {
    plan(Quota::new(5, Duration::from_micros(period_micros)))
}

fn window(period_micros: u64) -> FixedWindow {
    five_in(|quota| FixedWindow::new(quota).named("plan"), period_micros)
}

/// Exactly so many units are admitted.
#[track_caller]
fn has_left<A: Algorithm>(plan: &A, state: &A::State, left: u32, now: Timestamp) {
    assert!(plan.judge(state, left, now), "less than {left}");
    assert!(!plan.judge(state, left + 1, now), "more than {left}");
}

/// Three plans come at one instant: the first becomes a further plan.
fn comes_back<A: Algorithm>(plan: impl Fn(Quota) -> A, left: [u32; 3]) {
    let plans = [1_000, 1_700, 2_300].map(|period| five_in(&plan, period));
    let mut state = plans[0].fresh(NOW);
    for (index, cost) in [(0, 2), (1, 1), (2, 1), (2, 1)] {
        assert!(plans[index].step(&mut state, cost, NOW).0);
    }
    for (plan, left) in plans.iter().zip(left) {
        has_left(plan, &state, left, NOW);
    }
}

/// What one plan has counted matters to another one until it is over under both.
fn is_over_for_another_at<A: Algorithm>(plan: impl Fn(Quota) -> A, end_micros: u64) {
    let at = Timestamp::from_micros;
    let now = at(1_000_000);
    let [plan, another] = [1_100, 1_000].map(|period| {
        let period = Duration::from_micros(period);
        plan(Quota::new(5, period))
    });
    let mut state = plan.fresh(now);
    assert!(plan.step(&mut state, 1, now).0);
    assert!(!another.is_fresh(&state, at(end_micros - 1)));
    assert!(another.is_fresh(&state, at(end_micros)));
    plan.refund(&mut state, 1, now);
    assert!(another.is_fresh(&state, now));
}

#[test]
fn a_number_is_taken_only_if_it_is_below_2_to_the_54() {
    let numbers = [(1 << 54) - 1, 1 << 54];
    let rest = &mut &numbers[..];
    assert_eq!(next_of(rest), Some((1 << 54) - 1));
    assert_eq!(next_of(rest), None);
    assert_eq!(next_of(rest), None);
}

#[test]
fn a_state_is_fresh_when_it_is_over_by_everybody_s_numbers() {
    is_over_for_another_at(|quota| TokenBucket::new(quota).named("plan"), 1_000_220);
    is_over_for_another_at(|quota| FixedWindow::new(quota).named("plan"), 1_002_100);
    is_over_for_another_at(
        |quota| FixedWindow::new(quota).from_first_request().named("plan"),
        1_002_200,
    );
    is_over_for_another_at(|quota| SlidingWindow::new(quota).named("plan"), 1_002_100);
}

#[test]
fn a_plan_that_was_left_begins_with_what_it_had_counted() {
    // The second plan's charge is over when its own two units are.
    comes_back(|quota| TokenBucket::new(quota).named("plan"), [3, 0, 0]);
    comes_back(|quota| FixedWindow::new(quota).named("plan"), [2, 0, 0]);
    let from_first = |quota| FixedWindow::new(quota).from_first_request().named("plan");
    comes_back(from_first, [2, 0, 0]);
    comes_back(|quota| SlidingWindow::new(quota).named("plan"), [2, 0, 0]);
}

#[test]
fn a_plan_that_comes_back_second_has_counted_everything() {
    let [long, short] = [1_700, 1_000].map(window);
    let mut state = long.fresh(NOW);
    for (plan, cost) in [(&long, 2), (&short, 1), (&long, 1)] {
        assert!(plan.step(&mut state, cost, NOW).0);
    }
    has_left(&long, &state, 1, NOW);
    has_left(&short, &state, 1, NOW);
}

#[test]
fn each_plan_has_windows_of_its_own() {
    let plans = [1_000, 1_700, 2_300].map(window);
    let mut state = plans[0].fresh(NOW);
    for (plan, end_micros) in plans.iter().zip([1_001_000, 1_001_300, 1_000_500]) {
        assert!(plan.step(&mut state, 1, NOW).0);
        let end = Timestamp::from_micros(end_micros);
        assert!(!plan.judge(&state, 5, Timestamp::from_micros(end_micros - 1)));
        assert!(plan.judge(&state, 5, end));
    }
}

#[test]
fn units_are_given_back_to_the_plan_that_was_charged() {
    let [first, second, third] = [1_000, 1_700, 2_300].map(window);
    let mut state = first.fresh(NOW);
    assert!(first.step(&mut state, 3, NOW).0);
    assert!(second.step(&mut state, 1, NOW).0);
    first.refund(&mut state, 2, NOW);
    has_left(&first, &state, 3, NOW);
    has_left(&second, &state, 1, NOW);
    second.refund(&mut state, 1, NOW);
    has_left(&first, &state, 3, NOW);
    has_left(&second, &state, 2, NOW);
    // One that has none gives back to the latest.
    third.refund(&mut state, 1, NOW);
    has_left(&first, &state, 3, NOW);
    has_left(&second, &state, 3, NOW);
}

#[test]
fn a_count_is_moved_only_if_it_is_more_than_a_span_ahead() {
    // The span of a window is one period, that of two windows two.
    let sliding = five_in(|quota| SlidingWindow::new(quota).named("plan"), 1_000);
    let far = Timestamp::from_micros(1_010_000);
    let mut window_state = window(1_000).fresh(far);
    let mut sliding_state = sliding.fresh(far);
    assert!(window(1_700).step(&mut window_state, 5, far).0);
    let another = five_in(|quota| SlidingWindow::new(quota).named("plan"), 1_700);
    assert!(another.step(&mut sliding_state, 5, far).0);
    // The window began at 1 009 800 µs.
    for (back, is_moved) in [(1_008_100, false), (1_008_099, true)] {
        let (back, mut state) = (Timestamp::from_micros(back), window_state.clone());
        window(1_700).mend(&mut state, back);
        assert_eq!(state != window_state, is_moved);
    }
    for (back, is_moved) in [(1_006_600, false), (1_006_599, true)] {
        let (back, mut state) = (Timestamp::from_micros(back), sliding_state.clone());
        another.mend(&mut state, back);
        assert_eq!(state != sliding_state, is_moved);
    }
}

#[test]
fn a_step_back_moves_both_plans() {
    for of_first in [true, false] {
        let [first, second] = [1_000, 1_700].map(window);
        let mut state = first.fresh(NOW);
        assert!(first.step(&mut state, 3, NOW).0);
        assert!(second.step(&mut state, 1, NOW).0);
        let back = Timestamp::from_micros(500_000);
        let caller = if of_first { &first } else { &second };
        caller.mend(&mut state, back);
        for (plan, period) in [(&first, 1_000), (&second, 1_700)] {
            has_left(plan, &state, 1, back);
            let end = 500_000_u64.next_multiple_of(period) + period;
            assert!(!plan.judge(&state, 5, Timestamp::from_micros(end - 1)));
            assert!(plan.judge(&state, 5, Timestamp::from_micros(end)));
        }
    }
}

#[test]
fn a_state_of_two_plans_is_fresh_when_both_are_over() {
    let [long, short] = [1_700, 1_000].map(window);
    let mut state = long.fresh(NOW);
    assert!(long.step(&mut state, 1, NOW).0);
    assert!(short.step(&mut state, 1, NOW).0);
    for plan in [&long, &short] {
        assert!(!plan.is_fresh(&state, Timestamp::from_micros(1_002_999)));
        assert!(plan.is_fresh(&state, Timestamp::from_micros(1_003_000)));
    }
}

/// Admits one under each of these plans, at so many microseconds; then tells what is kept of
/// further plans, and of the other one its period and what it has used.
fn kept_after<const N: usize>(admissions: [(u64, u64); N]) -> ([u64; 4], Option<[u64; 2]>) {
    let mut state = window(1).fresh(Timestamp::default());
    for (period, micros) in admissions {
        let now = Timestamp::from_micros(micros);
        assert!(window(period).step(&mut state, 1, now).0);
    }
    let mut told = Vec::new();
    window(1).numbers(&state, &mut |number| told.push(number));
    // The count, and whose it is, come first.
    let (further, other) = told[4..].split_at(4);
    let other = other.first().map(|period| [*period, other[3]]);
    (further.try_into().unwrap(), other)
}

#[test]
fn a_plan_is_kept_until_what_it_has_counted_is_over() {
    // What the first has counted is over at 1 002 000 µs, what the second has at 1 003 000.
    let at = |micros| kept_after([(1_000, 1_000_050), (1_700, 1_000_050), (1_700, micros)]);
    assert_eq!(at(1_001_999), ([0; 4], Some([1_000, 1])));
    assert_eq!(at(1_002_000), ([0; 4], None));
}

#[test]
fn of_further_plans_is_kept_what_is_not_over() {
    let (first, second) = ((1_000, 1_000_050), (1_700, 1_000_050));
    // The first becomes a further one at once, or as late as here.
    for third in [1_000_050, 1_001_999] {
        let at = |micros| kept_after([first, second, (2_300, third), (2_300, micros)]).0;
        assert_eq!(at(1_001_999), [2, 1_000_000, 1_002_000, 2_000]);
        assert_eq!(at(1_002_000), [0; 4]);
    }
    let at = |micros| kept_after([first, second, (2_300, micros)]).0;
    assert_eq!(at(1_002_000), [0; 4]);
}

#[test]
fn of_two_plans_that_matter_as_long_the_one_that_was_kept_stays() {
    let first = (1_000, 1_000_050);
    let (further, other) = kept_after([first, (500, 1_001_050), (2_300, 1_001_060)]);
    assert_eq!(further, [1, 1_001_000, 1_002_000, 1_000]);
    assert_eq!(other, Some([1_000, 2]));
}

#[test]
fn a_step_back_leaves_what_was_counted_at_that_instant_as_it_is() {
    let at = Timestamp::from_micros;
    let plans = [10, 1_000, 2_000, 100];
    let [short, second, third, fourth] =
        plans.map(|period| five_in(|quota| SlidingWindow::new(quota).named("plan"), period));
    let (ahead, now) = (at(1_000_050), at(1_000_010));
    let mut latest = short.fresh(ahead);
    for plan in [&short, &second, &third] {
        assert!(plan.step(&mut latest, 1, ahead).0);
    }
    // For the fourth plan the others are not far ahead. Two of what they counted were in the window
    // before its running one.
    assert!(fourth.step(&mut latest, 1, now).0);
    let mut other = latest.clone();
    assert!(third.step(&mut other, 1, now).0);
    for (state, left) in [(latest, 2), (other, 1)] {
        // Here what this plan itself counted is not far ahead, whatever the others did.
        let mut mended = state.clone();
        fourth.mend(&mut mended, at(999_840));
        assert_eq!(mended, state);
        short.mend(&mut mended, now);
        assert_ne!(mended, state, "the others are moved");
        has_left(&fourth, &mended, left, now);
        // Less of that window counts later.
        has_left(&fourth, &mended, left + 1, at(1_000_060));
    }
}

#[test]
fn a_state_is_fresh_only_once_further_plans_are_over_too() {
    let [first, second, third] = [1_000, 1_700, 500].map(window);
    let mut state = first.fresh(NOW);
    // The first becomes a further one; what it has counted is over at 1 002 000 µs.
    for plan in [&first, &second, &third, &second] {
        assert!(plan.step(&mut state, 1, NOW).0);
    }
    second.refund(&mut state, 5, NOW);
    assert!(!second.is_fresh(&state, Timestamp::from_micros(1_001_999)));
    assert!(second.is_fresh(&state, Timestamp::from_micros(1_002_000)));
}
