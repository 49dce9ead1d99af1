//! The worst that callers can do with holds where a policy's numbers change back and forth: as in
//! `worst_holds`, but each hold is by either of two plans.

use crate::cases::{Cases, numbers};

#[test]
fn of_two_plans_that_hold_in_turn_each_lets_through_what_it_would_alone() {
    let mut cases = Cases::default();
    let plans = [numbers(1, 3, 1, 1), numbers(2, 3, 2, 1)];
    cases.of_every_algorithm(&plans, false, 1);
    let (reached, all) = (cases.reached, cases.all);
    assert!(reached * 2 > all, "{reached} of {all}");
}
