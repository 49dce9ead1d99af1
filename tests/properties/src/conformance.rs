//! Every algorithm of the list, each with its model, and a few tuples.

use tollgate::algorithm::*;
use tollgate_algorithms::every_algorithm;

use crate::{model::*, numbers::Numbers, subject::Subject};

/// Every algorithm with these numbers, and a few tuples. Their names are the same with all numbers.
#[rustfmt::skip]
pub fn every_algorithm(numbers: &Numbers) -> Vec<Subject> {
    let Numbers { units: n, period: p, burst: b, precision, interval: d, other_units: m, other_period: o } = *numbers;
    let (quota, other) = (numbers.quota(), numbers.other_quota());
    let (step, gap) = (numbers.precision(), numbers.interval());
    macro_rules! with_its_model {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {
            vec![$(Subject::new($name, $algorithm.named($name.replace(' ', "-")), [$model($(numbers.$number),*)])),+]
        };
    }
    let mut all = every_algorithm!(with_its_model, quota, b, step, gap);
    all.extend([
        Subject::new("(token bucket, min interval)", (TokenBucket::new(quota).named("a"), MinInterval::new(gap).named("b")), [debt_bucket(n, p, n), min_interval(d)]),
        Subject::new("(token bucket per request, token bucket)", (TokenBucket::new(other).per_request().named("a"), TokenBucket::new(quota).burst(b).named("b")), [debt_bucket_per_request(m, o, m), debt_bucket(n, p, b)]),
        Subject::new("(fixed window, sliding log)", (FixedWindow::new(quota).named("a"), SlidingLog::new(other).named("b")), [fixed_window(n, p), sliding_log(m, o)]),
        Subject::new("(gcra, sliding window)", (Gcra::new(quota).burst(b).named("a"), SlidingWindow::new(other).named("b")), [debt_bucket(n, p, b), sliding_window(m, o)]),
        Subject::new(
            "(queue, window from first, strict)",
            (LeakyBucket::new(other).queue().named("a"), FixedWindow::new(quota).from_first_request().named("b"), SlidingBuckets::new(quota, step).strict().named("c")),
            [queue(m, o, m), window_from_first_request(n, p), strict_buckets(n, p, precision)],
        ),
        Subject::new("(gcra that waits, fixed window)", (Gcra::new(quota).burst(b).wait_at_most(gap).named("a"), FixedWindow::new(other).named("b")), [wait_at_most(n, p, b, d), fixed_window(m, o)]),
        Subject::new(
            "(token bucket, buckets, log, interval)",
            (TokenBucket::new(quota).burst(b).named("a"), SlidingBuckets::new(quota, step).named("b"), SlidingLog::new(other).named("c"), MinInterval::new(gap).named("d")),
            [debt_bucket(n, p, b), sliding_buckets(n, p, precision), sliding_log(m, o), min_interval(d)],
        ),
    ]);
    all
}
