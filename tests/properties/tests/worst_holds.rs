//! The worst that callers can do with holds, in small numbers: every state that they can bring
//! about is visited, with holds of all sizes, settled early, late or never, with less and with
//! more, and after they are gone. Each algorithm's printed bound is reached, and never passed, by
//! the time of settlement and by that of admission. What plans do in turn is in `worst_plans`.

use crate::cases::{Cases, NUMBERS, micros};
use tollgate::{
    Quota,
    algorithm::{FixedWindow, SlidingLog, TokenBucket},
};
use tollgate_properties::{formulas, numbers::Numbers};

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
            let numbers = Numbers::new((n, period), burst, precision, 1);
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
    let (reached, all) = (cases.reached, cases.all);
    assert!(reached * 4 > all * 3, "{reached} of {all}");
}

#[test]
fn a_key_that_is_reset_while_units_are_held_lets_through_no_more_from_then_on() {
    let mut cases = Cases::default();
    for &(n, period, at_most) in &NUMBERS[..3] {
        cases.of_every_algorithm(&[Numbers::new((n, period), n, 1, 1)], true, at_most);
    }
    cases.are_all_reached();
}
