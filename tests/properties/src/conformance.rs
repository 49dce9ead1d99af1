//! Every algorithm of the list, each with its model, and a few tuples.

use tollgate::algorithm::*;
use tollgate_algorithms::every_algorithm;

use crate::{
    model::*,
    numbers::Numbers,
    subject::{Models, Subject},
};

/// How a subject is made of an algorithm.
pub trait Make {
    /// Makes one.
    fn make(name: &'static str, rule: impl Scripted, models: impl Into<Models>) -> Subject;
}

impl Make for Subject {
    fn make(name: &'static str, rule: impl Scripted, models: impl Into<Models>) -> Subject {
        Subject::new(name, rule, models)
    }
}

/// Every algorithm with these numbers, and a few tuples. Their names are the same with all numbers.
pub fn every_algorithm(numbers: &Numbers) -> Vec<Subject> {
    every_algorithm_by::<Subject>(numbers)
}

/// The same, each made so.
#[rustfmt::skip]
pub fn every_algorithm_by<M: Make>(numbers: &Numbers) -> Vec<Subject> {
    let Numbers { units: n, period: p, burst: b, precision, interval: d, other_units: m, other_period: o } = *numbers;
    let (quota, other) = (numbers.quota(), numbers.other_quota());
    let (step, gap) = (numbers.precision(), numbers.interval());
    macro_rules! with_its_model {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {
            vec![$(M::make($name, $algorithm.named($name.replace(' ', "-")), [$model($(numbers.$number),*)])),+]
        };
    }
    let mut all = every_algorithm!(with_its_model, quota, b, step, gap);
    all.extend([
        M::make("(token bucket, min interval)", (TokenBucket::new(quota).named("a"), MinInterval::new(gap).named("b")), [debt_bucket(n, p, n), min_interval(d)]),
        M::make("(token bucket per request, token bucket)", (TokenBucket::new(other).per_request().named("a"), TokenBucket::new(quota).burst(b).named("b")), [debt_bucket_per_request(m, o, m), debt_bucket(n, p, b)]),
        M::make("(fixed window, sliding log)", (FixedWindow::new(quota).named("a"), SlidingLog::new(other).named("b")), [fixed_window(n, p), sliding_log(m, o)]),
        M::make("(gcra, sliding window)", (Gcra::new(quota).burst(b).named("a"), SlidingWindow::new(other).named("b")), [debt_bucket(n, p, b), sliding_window(m, o)]),
        M::make(
            "(queue, window from first, strict)",
            (LeakyBucket::new(other).queue().named("a"), FixedWindow::new(quota).from_first_request().named("b"), SlidingBuckets::new(quota, step).strict().named("c")),
            [queue(m, o, m), window_from_first_request(n, p), strict_buckets(n, p, precision)],
        ),
        M::make("(gcra that waits, fixed window)", (Gcra::new(quota).burst(b).wait_at_most(gap).named("a"), FixedWindow::new(other).named("b")), [wait_at_most(n, p, b, d), fixed_window(m, o)]),
        M::make(
            "(token bucket, buckets, log, interval)",
            (TokenBucket::new(quota).burst(b).named("a"), SlidingBuckets::new(quota, step).named("b"), SlidingLog::new(other).named("c"), MinInterval::new(gap).named("d")),
            [debt_bucket(n, p, b), sliding_buckets(n, p, precision), sliding_log(m, o), min_interval(d)],
        ),
    ]);
    all
}
