//! Each printed bound is reached in small numbers, and never passed: every state that any caller
//! can bring about is looked at. Where a formula needs a condition, four cases in five reach it.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use tollgate::{Quota, algorithm::*};
use tollgate_algorithms::every_algorithm;
use tollgate_properties::{
    model::*,
    numbers::Numbers,
    search::{Search, worst},
};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn quota(n: u64, period: u64) -> Quota {
    Quota::new(n, micros(period))
}

/// The most that the search finds is what the formula says.
#[track_caller]
fn reaches<A>(what: &str, rule: &A, search: Search, bound: i128)
where
    A: KeyLimit<State: Debug, Snapshot: Debug>,
{
    let worst = worst(rule, search);
    let most = i128::from(worst.most);
    assert_eq!(most, bound, "{what}: {search:?}: {worst:?}");
}

/// The search finds no more than the formula says; says whether it finds as much.
#[track_caller]
fn stays_within<A>(what: &str, rule: &A, search: Search, bound: i128) -> bool
where
    A: KeyLimit<State: Debug, Snapshot: Debug>,
{
    let worst = worst(rule, search);
    let most = i128::from(worst.most);
    assert!(
        most <= bound,
        "{what}: more than {bound}: {search:?}: {worst:?}"
    );
    most == bound
}

/// Quotas of up to 4 units in up to so many microseconds.
fn quotas(longest: u64) -> impl Iterator<Item = (u64, u64)> {
    (1..=longest).flat_map(|period| (0..=4).map(move |n| (n, period)))
}

/// In all small numbers, with costs that fit and, for the smallest limits, one that never does.
/// What pays off less than a unit in a microsecond reaches its bound only if it has room for that,
/// and a queue only if it has room for a period.
#[test]
fn every_algorithm_stays_within_its_bound_in_all_small_numbers() {
    let mut reached = BTreeMap::<&str, (u32, u32)>::new();
    for (n, period) in quotas(5) {
        for (burst, precision, interval) in [(1, 1, 1), (2, period, 2), (3, 1, period)] {
            let numbers = Numbers::new((n, period), burst, precision, interval);
            let (quota, step, gap) = (numbers.quota(), numbers.precision(), numbers.interval());
            macro_rules! stays_within_its_bound {
                ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {$(
                    let model = $model($(numbers.$number),*);
                    // More states than anyone can look at.
                    if model.limit() <= 5 {
                        let releases = model.bound(1).counts == Counts::Releases;
                        let largest_cost = u64::try_from(model.limit().min(2)).unwrap();
                        let largest_cost = largest_cost + u64::from(!releases);
                        let bound = model.bound(largest_cost.into());
                        let [span, matters] =
                            [bound.span, model.span()].map(|span| u64::try_from(span).unwrap());
                        let search = Search {
                            counts: bound.counts,
                            withdrawals: releases,
                            // A state may matter for longer than the span of the bound.
                            before: span.max(matters) + 1,
                            ..Search::units(span, largest_cost)
                        };
                        let what = format!("{}: {numbers:?}", $name);
                        let (most, all) = reached.entry($name).or_default();
                        *all += 1;
                        *most += u32::from(stays_within(&what, &$algorithm, search, bound.most));
                    }
                )+};
            }
            every_algorithm!(stays_within_its_bound, quota, burst, step, gap);
        }
    }
    for (name, (reached, all)) in reached {
        assert!(reached * 5 >= all * 4, "{name}: {reached} of {all}");
    }
}

#[test]
fn sliding_buckets_let_through_n_in_a_span_of_one_precision_less() {
    for (n, period) in quotas(6) {
        for precision in (1..=period).filter(|precision| period % precision == 0) {
            let rule = SlidingBuckets::new(quota(n, period), micros(precision));
            let search = Search::units(period - precision + 1, n + 1);
            reaches(
                &format!("{n} in {period}, precision {precision}"),
                &rule,
                search,
                n.into(),
            );
        }
    }
}

/// The worst case with refunds is the bound without them, plus what was refunded in the span and
/// charged before it.
#[test]
fn a_refund_lets_through_as_much_more_as_was_charged_before_the_span() {
    let mut refunded = BTreeMap::<&str, u64>::new();
    for (n, period) in [(1, 1), (1, 3), (2, 3), (2, 4)] {
        for precision in [1, period] {
            let numbers = Numbers::new((n, period), n, precision, 2);
            let (quota, burst) = (numbers.quota(), numbers.burst);
            let (step, gap) = (numbers.precision(), numbers.interval());
            macro_rules! stays_within_it {
                ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {$(
                    let bound = $model($(numbers.$number),*).bound(n.into());
                    // Who waits keeps the turn that was promised.
                    if bound.counts != Counts::Releases {
                        let search = Search {
                            counts: bound.counts,
                            refunds: true,
                            ..Search::units(u64::try_from(bound.span).unwrap(), n)
                        };
                        let worst = worst(&$algorithm, search);
                        let most = i128::from(worst.most);
                        assert!(most <= bound.most, "{}: {search:?}: {worst:?}", $name);
                        *refunded.entry($name).or_default() += u64::from(worst.refunded > 0);
                    }
                )+};
            }
            every_algorithm!(stays_within_it, quota, burst, step, gap);
        }
    }
    let is_each_refunded = refunded.values().all(|refunded| *refunded > 0);
    assert!(is_each_refunded, "{refunded:?}");
}
