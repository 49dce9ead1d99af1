//! What holds for every algorithm, and for one that has only the required methods.

use super::*;
use crate::Quota;

/// By hand, and not by the list of all algorithms: the bytes of each state are the claim.
#[test]
fn memory_per_key_is_what_the_table_says() {
    fn bytes<A: KeyLimit>() -> usize {
        size_of::<A::State>()
    }
    let buckets = [
        bytes::<TokenBucket>(),
        bytes::<Gcra>(),
        bytes::<LeakyBucket>(),
    ];
    let waits = [bytes::<LeakyBucketQueue>(), bytes::<WaitAtMost<Gcra>>()];
    assert_eq!((buckets, waits), ([24; 3], [24; 2]));
    assert_eq!(bytes::<FixedWindow>(), 16);
    assert_eq!(bytes::<InFlight>(), 32);
    assert_eq!([bytes::<SlidingLog>(), bytes::<SlidingBuckets>()], [56; 2]);
    assert_eq!(size_of::<admissions::Entry>(), 16);
    assert_eq!(bytes::<SlidingWindow>(), 24);
    assert_eq!(bytes::<MinInterval>(), 8);
    assert_eq!(bytes::<(TokenBucket, FixedWindow)>(), 40);
}

const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn left<A: KeyLimit>(rule: &A, state: &A::State) -> u64 {
    let snapshot = rule.snapshot(state, 0, true, NOW);
    rule.decision_of(&snapshot).remaining()
}

#[test]
fn a_debit_of_many_units_is_one_request() {
    let rule = FixedWindow::new(Quota::per_day(9)).per_request();
    let mut state = KeyLimit::fresh(&rule, NOW);
    for (units, remaining) in [(1, 8), (70, 7), (u64::MAX, 6)] {
        KeyLimit::debit(&rule, &mut state, units, NOW);
        assert_eq!(left(&rule, &state), remaining);
    }
}

/// A hold of many units is one request, which counts unless nothing was spent.
#[test]
fn what_is_settled_per_request_counts_requests() {
    let rule = FixedWindow::new(Quota::per_day(9)).per_request().settled();
    let mut state = rule.fresh(NOW);
    for (spent, remaining) in [(70, 8), (3, 7), (0, 7)] {
        let (admitted, admission) = rule.step(&mut state, 70, NOW);
        assert!(admitted && rule.holds(&state, &admission));
        let ending = Ending::Settled { held: 70, spent };
        rule.end(&mut state, &admission, ending, NOW);
        assert_eq!(left(&rule, &state), remaining);
    }
    rule.refund(&mut state, 70, NOW);
    assert_eq!(left(&rule, &state), 8);
}

#[test]
fn what_a_policy_says_of_requests_stays_whatever_is_set_later() {
    let quota = Quota::per_minute(6);
    let bucket = || TokenBucket::new(quota).per_request().shadow();
    let leaky = || LeakyBucket::new(quota).per_request().shadow();
    let second = std::time::Duration::from_secs(1);
    let buckets = SlidingBuckets::new(quota, second);
    let window = FixedWindow::new(quota).per_request().shadow();
    for policy in [
        bucket().burst(9).policy(),
        bucket().wait_at_most(second).policy(),
        leaky().capacity(9).policy(),
        leaky().queue().capacity(9).policy(),
        buckets.per_request().shadow().strict().policy(),
        window.from_first_request().policy(),
    ] {
        assert!(policy.counts_requests() && policy.is_in_shadow());
        assert!(policy.name().ends_with("-per-request"), "{}", policy.name());
    }
    let first = TokenBucket::new(quota).burst(9).per_request();
    assert_eq!(first.policy().id(), bucket().burst(9).policy().id());
    assert_eq!(bucket().named("a").burst(9).policy().name(), "a");
}
