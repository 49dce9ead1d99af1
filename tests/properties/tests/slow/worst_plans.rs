//! The worst that callers can do with holds where a policy's numbers change back and forth: as in
//! `worst_holds`, but each hold is by either of two plans.

use crate::cases::Cases;
use tollgate_properties::numbers::Numbers;

/// The bound of the smaller one, and of the larger one, whose holds the other may see end. Only
/// buckets share a state if the periods differ.
#[test]
fn of_two_plans_that_hold_in_turn_each_lets_through_what_it_would_alone() {
    let mut cases = Cases::default();
    let [fewer, more, faster] = [(1, 3, 1), (2, 3, 2), (2, 1, 1)]
        .map(|(n, period, burst)| Numbers::new((n, period), burst, 1, 1));
    for plans in [[fewer, more], [more, fewer], [more, faster], [faster, more]] {
        cases.of_every_algorithm(&plans, false, 1);
    }
    let (reached, all) = (cases.reached, cases.all);
    assert!(reached * 2 > all, "{reached} of {all}");
}
