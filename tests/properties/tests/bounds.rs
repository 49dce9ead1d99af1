//! Each printed bound is reached in small numbers, and never passed: every state that any caller
//! can bring about is looked at. Where a formula needs a condition, the test says so.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use tollgate::{Quota, algorithm::*};
use tollgate_algorithms::every_algorithm;
use tollgate_properties::{
    formulas,
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
    A: Algorithm<State: Debug, Snapshot: Debug>,
{
    let worst = worst(rule, search);
    let most = i128::from(worst.most);
    assert_eq!(most, bound, "{what}: {search:?}: {worst:?}");
}

/// The search finds no more than the formula says; says whether it finds as much.
#[track_caller]
fn stays_within<A>(what: &str, rule: &A, search: Search, bound: i128) -> bool
where
    A: Algorithm<State: Debug, Snapshot: Debug>,
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

/// In numbers with which each formula is reached: the burst has room for what refills, and the wait
/// too.
#[test]
fn every_algorithm_reaches_the_bound_of_its_model() {
    const LARGEST_COST: u64 = 2;
    let numbers = Numbers {
        units: 3,
        period: 6,
        burst: 2,
        precision: 2,
        interval: 2,
        other_units: 1,
        other_period: 1,
    };
    let (quota, burst) = (numbers.quota(), numbers.burst);
    let (step, gap) = (numbers.precision(), numbers.interval());
    macro_rules! reaches_its_bound {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {$(
            let bound = $model($(numbers.$number),*).bound(LARGEST_COST.into());
            let search = Search {
                counts: bound.counts,
                withdrawals: bound.counts == Counts::Releases,
                ..Search::units(u64::try_from(bound.span).unwrap(), LARGEST_COST)
            };
            reaches($name, &$algorithm, search, bound.most);
        )+};
    }
    every_algorithm!(reaches_its_bound, quota, burst, step, gap);
}

/// In all of these quotas, with costs that fit and one that never does.
#[track_caller]
fn reaches_in_quotas<A>(longest: u64, rule: fn(Quota) -> A, bound: fn(i128, i128) -> i128)
where
    A: Algorithm<State: Debug, Snapshot: Debug>,
{
    for (n, period) in quotas(longest) {
        let what = format!("{n} in {period}");
        let search = Search::units(period, n + 1);
        reaches(
            &what,
            &rule(quota(n, period)),
            search,
            bound(n.into(), period.into()),
        );
    }
}

#[test]
fn a_fixed_window_lets_through_2n() {
    reaches_in_quotas(7, FixedWindow::new, formulas::fixed_window);
}

#[test]
fn a_window_from_the_first_request_lets_through_2n_minus_1() {
    let rule = |quota| FixedWindow::new(quota).from_first_request();
    reaches_in_quotas(7, rule, formulas::window_from_first_request);
}

#[test]
fn a_sliding_log_lets_through_n() {
    reaches_in_quotas(5, SlidingLog::new, |n, _| n);
}

#[test]
fn a_sliding_window_lets_through_n_and_what_a_previous_window_of_two_microseconds_less_gives() {
    reaches_in_quotas(7, SlidingWindow::new, formulas::sliding_window);
}

#[test]
fn sliding_buckets_let_through_2n_and_n_in_a_span_of_one_precision_less() {
    for (n, period) in quotas(6) {
        for precision in (1..=period).filter(|precision| period % precision == 0) {
            let rule = SlidingBuckets::new(quota(n, period), micros(precision));
            let bound = formulas::sliding_buckets(n.into(), precision.into());
            reaches(
                &format!("{n} in {period}, precision {precision}"),
                &rule,
                Search::units(period, n + 1),
                bound,
            );
            let shorter = period - precision + 1;
            reaches(
                &format!("{n} in {period}, precision {precision}"),
                &rule,
                Search::units(shorter, n + 1),
                n.into(),
            );
        }
    }
}

#[test]
fn strict_buckets_let_through_n() {
    for (n, period) in quotas(6) {
        for precision in (1..=period).filter(|precision| period % precision == 0) {
            let rule = SlidingBuckets::new(quota(n, period), micros(precision)).strict();
            reaches(
                &format!("{n} in {period}, precision {precision}"),
                &rule,
                Search::units(period, n + 1),
                n.into(),
            );
            reaches(
                &format!("{n} in {period}, precision {precision}"),
                &rule,
                Search::units(period + 1, n + 1),
                n.into(),
            );
        }
    }
}

/// Reached wherever the burst has room for what refills in a microsecond. A burst of 1 that has not
/// is a least interval.
#[test]
fn debt_buckets_let_through_the_burst_and_what_refills_between_the_first_and_the_last_microsecond()
{
    for (n, period) in quotas(7) {
        for burst in 0..=4 {
            let numbers = (i128::from(burst), i128::from(n), i128::from(period));
            let bound = match formulas::holds_what_refills(numbers.0, numbers.1, numbers.2) {
                _ if burst == 0 || n == 0 => 0,
                false if burst == 1 => {
                    formulas::min_interval(period.div_ceil(n).into(), period.into())
                }
                _ => formulas::debt_bucket(numbers.0, numbers.1, numbers.2, 1),
            };
            let what = format!("{n} in {period}, burst {burst}");
            let search = Search::units(period, burst + 1);
            let quota = quota(n, period);
            reaches(&what, &TokenBucket::new(quota).burst(burst), search, bound);
            reaches(
                &what,
                &LeakyBucket::new(quota).capacity(burst),
                search,
                bound,
            );
            reaches(&what, &Gcra::new(quota).burst(burst), search, bound);
        }
    }
}

#[test]
fn a_queue_releases_n_and_the_largest_cost_less_1_whoever_gives_up() {
    for (n, period) in quotas(5) {
        for capacity in 1..=4 {
            for largest_cost in 1..=capacity {
                queue_releases(n, period, capacity, largest_cost);
            }
        }
    }
}

/// Reached wherever the capacity has room for what is paid off in a microsecond.
fn queue_releases(n: u64, period: u64, capacity: u64, largest_cost: u64) {
    let rule = LeakyBucket::new(quota(n, period))
        .capacity(capacity)
        .queue();
    let bound = formulas::queue(n.into(), period.into(), 1, largest_cost.into());
    for withdrawals in [false, true] {
        let search = Search {
            counts: Counts::Releases,
            withdrawals,
            before: period + 1,
            ..Search::units(period, largest_cost)
        };
        let what = format!("{n} in {period}, capacity {capacity}");
        let reached = stays_within(&what, &rule, search, bound);
        let holds = formulas::holds_what_refills(capacity.into(), n.into(), period.into());
        assert!(reached || !holds, "{what}: {bound} is not reached");
    }
}

#[test]
fn what_waits_on_top_of_a_burst_adds_nothing_to_it_whoever_gives_up() {
    let (mut cases, mut reached) = (0, 0);
    for (n, period) in quotas(4) {
        for (burst, wait) in [(0, 3), (1, 0), (1, 1), (1, 3), (2, 1), (2, 4), (3, 2)] {
            let rule = TokenBucket::new(quota(n, period)).burst(burst);
            let rule = rule.wait_at_most(micros(wait));
            let most_at_once = if n == 0 || burst == 0 {
                0
            } else {
                burst + wait * n / period
            };
            if most_at_once > 5 {
                // More states than anyone can look at.
                continue;
            }
            for largest_cost in 1..=most_at_once.min(2) {
                let (was_reached, holds) =
                    releases_of_waiting(&rule, (n, period, burst, wait), largest_cost);
                assert!(
                    was_reached || !holds,
                    "{n} in {period}, burst {burst}, wait {wait}"
                );
                cases += 1;
                reached += usize::from(was_reached);
            }
        }
    }
    assert!(reached * 4 >= cases * 3, "{reached} of {cases}");
}

/// Whether the bound is reached, and whether it must be: if at most a unit is paid off in a
/// microsecond, and there is room for that.
fn releases_of_waiting<A>(
    rule: &A,
    (n, period, burst, wait): (u64, u64, u64, u64),
    largest_cost: u64,
) -> (bool, bool)
where
    A: Algorithm<State: Debug, Snapshot: Debug>,
{
    let [n, period, burst, wait] = [n, period, burst, wait].map(i128::from);
    let bound = formulas::wait_at_most(n, period, 1, burst, largest_cost.into());
    let mut reached = true;
    for withdrawals in [false, true] {
        let search = Search {
            counts: Counts::Releases,
            withdrawals,
            before: u64::try_from(period).unwrap() + 1,
            ..Search::units(u64::try_from(period).unwrap(), largest_cost)
        };
        let what = format!("{n} in {period}, burst {burst}, wait {wait}");
        reached &= stays_within(&what, rule, search, bound);
    }
    let room = burst * period + wait * n;
    (reached, n <= period && room >= n + period - 1)
}

#[test]
fn a_min_interval_lets_through_the_period_over_the_interval_rounded_up() {
    for period in 1..=9 {
        for interval in 1..=9 {
            let bound = formulas::min_interval(interval.into(), period.into());
            let search = Search {
                counts: Counts::Requests,
                ..Search::units(period, 2)
            };
            reaches(
                &format!("{interval} in {period}"),
                &MinInterval::new(micros(interval)),
                search,
                bound,
            );
        }
    }
}

/// The worst case with refunds is the bound without them, plus what was refunded in the span and
/// charged before it. Notes for each rule whether there was any.
#[derive(Default)]
struct WithRefunds(BTreeMap<&'static str, bool>);

impl WithRefunds {
    #[track_caller]
    fn reaches<A>(&mut self, what: &'static str, rule: &A, search: Search, bound: i128)
    where
        A: Algorithm<State: Debug, Snapshot: Debug>,
    {
        let refunds = true;
        let worst = worst(rule, Search { refunds, ..search });
        let most = i128::from(worst.most);
        assert_eq!(most, bound, "{what}: {search:?}: {worst:?}");
        *self.0.entry(what).or_default() |= worst.refunded > 0;
    }
}

#[test]
fn a_refund_lets_through_as_much_more_as_was_charged_before_the_span() {
    let mut all = WithRefunds::default();
    for (n, period) in [(1, 1), (1, 3), (2, 3), (2, 4)] {
        let (quota, search) = (quota(n, period), Search::units(period, n));
        let (units, span) = (i128::from(n), i128::from(period));
        if formulas::holds_what_refills(units, units, span) {
            let bound = formulas::debt_bucket(units, units, span, 1);
            all.reaches("token bucket", &TokenBucket::new(quota), search, bound);
            all.reaches("gcra", &Gcra::new(quota), search, bound);
            all.reaches("leaky bucket", &LeakyBucket::new(quota), search, bound);
        }
        let (window, bound) = (FixedWindow::new(quota), formulas::fixed_window(units, span));
        all.reaches("fixed window", &window, search, bound);
        let bound = formulas::window_from_first_request(units, span);
        all.reaches("from first", &window.from_first_request(), search, bound);
        let bound = formulas::sliding_window(units, span);
        all.reaches("sliding window", &SlidingWindow::new(quota), search, bound);
        all.reaches("sliding log", &SlidingLog::new(quota), search, units);
        for precision in [1, period] {
            let buckets = SlidingBuckets::new(quota, micros(precision));
            let bound = formulas::sliding_buckets(units, precision.into());
            all.reaches("sliding buckets", &buckets, search, bound);
            all.reaches("strict buckets", &buckets.strict(), search, units);
        }
    }
    for (interval, period) in [(1, 1), (2, 3), (3, 3), (2, 5)] {
        let search = Search {
            counts: Counts::Requests,
            ..Search::units(period, 2)
        };
        let bound = formulas::min_interval(interval.into(), period.into());
        let rule = MinInterval::new(micros(interval));
        all.reaches("min interval", &rule, search, bound);
    }
    assert_eq!(all.0.len(), 10);
    assert!(all.0.values().all(|refunded| *refunded), "{:?}", all.0);
}

/// The members of the tuples here, each with its bound: units in a span of the period, with costs
/// up to `c`.
fn bounds_of(n: u64, period: u64, burst: u64, interval: u64, c: u64) -> [i128; 4] {
    let (n, period, c) = (i128::from(n), i128::from(period), i128::from(c));
    [
        formulas::debt_bucket(burst.into(), n, period, 1),
        formulas::min_interval(interval.into(), period) * c,
        formulas::fixed_window(n, period),
        formulas::sliding_window(n, period),
    ]
}

/// Never more than the tightest member's bound. Mostly as much, but not always: two rules may not
/// be at their worst in the same span.
#[test]
fn tuples_let_through_no_more_than_their_tightest_member() {
    let (mut cases, mut reached) = (0, 0);
    let mut count = |was_reached: bool| {
        cases += 1;
        reached += usize::from(was_reached);
    };
    for (n, period) in quotas(5).filter(|(n, _)| *n > 0) {
        for (burst, interval) in [(1, 1), (2, 2), (3, 1), (4, 3)] {
            let what = format!("{n} in {period}, burst {burst}, interval {interval}");
            let quota = quota(n, period);
            let (bucket, gap) = (
                TokenBucket::new(quota).burst(burst),
                MinInterval::new(micros(interval)),
            );
            let (window, sliding) = (FixedWindow::new(quota), SlidingWindow::new(quota));
            let search = Search::units(period, 2);
            let [b, g, w, s] = bounds_of(n, period, burst, interval, 2);
            let two = (bucket.clone(), gap.clone());
            count(stays_within(&what, &two, search, b.min(g)));
            let two = (window.clone(), bucket.clone());
            count(stays_within(&what, &two, search, w.min(b)));
            let three = (window.clone(), sliding.clone(), bucket.clone());
            count(stays_within(&what, &three, search, w.min(s).min(b)));
            let log = SlidingLog::new(quota);
            let four = (bucket, gap, window, log);
            count(stays_within(
                &what,
                &four,
                search,
                b.min(g).min(w).min(n.into()),
            ));
        }
    }
    assert!(reached * 4 > cases * 3, "{reached} of {cases}");
}
