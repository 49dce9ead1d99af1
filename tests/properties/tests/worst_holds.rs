//! The worst that callers can do with holds, in small numbers: every state that they can bring
//! about is visited, with holds of all sizes, settled early, late or never, with less and with
//! more, and after they are gone. Each algorithm's printed bound is reached, and never passed, by
//! the time of settlement and by that of admission. What plans do in turn is in `worst_plans`.

use crate::cases::{Cases, NUMBERS, at, micros, numbers};
use crate::ready::ready;
use proptest::prelude::*;
use tollgate::{
    Quota, RateLimiter,
    algorithm::{Algorithm, FixedWindow, SlidingLog, TokenBucket},
    clock::ManualClock,
    store::LocalStore,
};
use tollgate_properties::{for_all, formulas};

/// With a burst of 1 where its bound is reached, and with one of 2; with the smallest precision and
/// the largest.
#[test]
fn every_algorithm_with_holds_lets_through_what_it_lets_through_without() {
    let mut cases = Cases::default();
    for (n, period, at_most) in NUMBERS {
        let [units, span] = [n, period].map(i128::from);
        let is_reached = |burst: &u64| formulas::holds_what_refills((*burst).into(), units, span);
        let least = (1..=2).find(is_reached).expect("one of them");
        for (burst, precision) in [(least, period), (2, 1)] {
            let numbers = numbers(n, period, burst, precision);
            cases.of_every_algorithm(&[numbers], false, at_most);
        }
    }
    cases.are_all_reached();
}

#[test]
fn tuples_with_holds_let_through_no_more_than_their_tightest_member() {
    let mut cases = Cases::default();
    for (n, period, at_most) in NUMBERS {
        let (quota, held) = (Quota::new(n, micros(period)), micros(at_most));
        let bucket = || {
            TokenBucket::new(quota)
                .burst(2)
                .settled()
                .held_at_most(held)
        };
        let log = || SlidingLog::new(quota).settled().held_at_most(held);
        let window = || FixedWindow::new(quota).settled().held_at_most(held);
        let of_bucket = formulas::debt_bucket(2, n.into(), period.into(), 1);
        let of_window = formulas::fixed_window(n.into(), period.into());
        let (times, n) = ((period, at_most), i128::from(n));
        cases.stays_within("(bucket, log)", &(bucket(), log()), times, of_bucket.min(n));
        let both = of_window.min(of_bucket);
        cases.stays_within("(window, bucket)", &(window(), bucket()), times, both);
    }
    assert!(
        cases.reached * 4 > cases.all * 3,
        "{} of {}",
        cases.reached,
        cases.all
    );
}

#[test]
fn a_key_that_is_reset_while_units_are_held_lets_through_no_more_from_then_on() {
    let mut cases = Cases::default();
    for (n, period, at_most) in &NUMBERS[..3] {
        cases.of_every_algorithm(&[numbers(*n, *period, *n, 1)], true, *at_most);
    }
    cases.are_all_reached();
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    Hold(u32),
    /// One of all holds that there ever were, and what of it is spent.
    Settle(usize, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..=6_u64).prop_map(Step::Wait),
        3 => (1..=4_u32).prop_map(Step::Hold),
        5 => (0..8_usize, 0..=5_u32).prop_map(|(which, spent)| Step::Settle(which, spent)),
    ];
    prop::collection::vec(step, 1..30)
}

/// The answers of a limiter to all that is held, and what was left after each step.
fn answers<A>(rule: A, steps: &[Step], settles_again: bool) -> Vec<String>
where
    A: Algorithm<State: Sync, Snapshot: Sync>,
{
    let clock = ManualClock::at(at(0));
    let store = LocalStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(rule, store);
    let (mut holds, mut answers) = (Vec::new(), Vec::new());
    for step in steps {
        match *step {
            Step::Wait(time) => clock.advance(micros(time)),
            Step::Hold(cost) => match ready(limiter.hold("bob", cost)).unwrap() {
                Ok(hold) => holds.push((hold, false)),
                Err(refused) => answers.push(format!("{refused:?}")),
            },
            Step::Settle(which, spent) if !holds.is_empty() => {
                let which = which % holds.len();
                let (hold, is_settled) = &mut holds[which];
                if !*is_settled || settles_again {
                    ready(hold.clone().settle(spent)).unwrap();
                }
                *is_settled = true;
            }
            Step::Settle(..) => {}
        }
        answers.push(format!("{:?}", ready(limiter.peek("bob")).unwrap()));
    }
    // A hold would be settled when it is dropped.
    std::mem::forget(holds);
    answers
}

#[test]
fn whoever_settles_again_changes_nothing() {
    for_all((1..=6_u64, 1..=9_u64, steps()), |(n, period, steps)| {
        let quota = Quota::new(n, micros(period));
        let held = micros(period.div_ceil(2));
        let bucket = TokenBucket::new(quota)
            .burst(8)
            .settled()
            .held_at_most(held);
        let log = SlidingLog::new(quota).settled().held_at_most(held);
        let once = answers(bucket.clone(), &steps, false);
        prop_assert_eq!(answers(bucket.clone(), &steps, true), once);
        let both = (log, bucket);
        let once = answers(both.clone(), &steps, false);
        prop_assert_eq!(answers(both, &steps, true), once);
        Ok(())
    });
}
