//! Every algorithm, each with its model: one line adds one to all tests here.

use tollgate::algorithm::{
    FixedWindow, Gcra, LeakyBucket, MinInterval, SlidingBuckets, SlidingLog, SlidingWindow,
    TokenBucket,
};

use crate::{model::*, numbers::Numbers, subject::Subject};

/// Every algorithm with these numbers.
#[rustfmt::skip]
pub fn every_algorithm(numbers: &Numbers) -> Vec<Subject> {
    let Numbers { units: n, period: p, burst: b, precision, interval: d, other_units: m, other_period: o } = *numbers;
    let (quota, other) = (numbers.quota(), numbers.other_quota());
    let (step, gap) = (numbers.precision(), numbers.interval());
    vec![
        Subject::new("fixed window", FixedWindow::new(quota), [fixed_window(n, p)]),
        Subject::new("window from first request", FixedWindow::new(quota).from_first_request(), [window_from_first_request(n, p)]),
        Subject::new("sliding log", SlidingLog::new(quota), [sliding_log(n, p)]),
        Subject::new("sliding window", SlidingWindow::new(quota), [sliding_window(n, p)]),
        Subject::new("sliding buckets", SlidingBuckets::new(quota, step), [sliding_buckets(n, p, precision)]),
        Subject::new("strict buckets", SlidingBuckets::new(quota, step).strict(), [strict_buckets(n, p, precision)]),
        Subject::new("token bucket", TokenBucket::new(quota), [meter(n, p, n)]),
        Subject::new("token bucket with burst", TokenBucket::new(quota).burst(b), [meter(n, p, b)]),
        Subject::new("leaky bucket", LeakyBucket::new(quota).capacity(b), [meter(n, p, b)]),
        Subject::new("leaky bucket queue", LeakyBucket::new(quota).capacity(b).queue(), [queue(n, p, b)]),
        Subject::new("gcra", Gcra::new(quota).burst(b), [meter(n, p, b)]),
        Subject::new("min interval", MinInterval::new(gap), [min_interval(d)]),
        Subject::new("(token bucket, min interval)", (TokenBucket::new(quota), MinInterval::new(gap)), [meter(n, p, n), min_interval(d)]),
        Subject::new("(fixed window, sliding log)", (FixedWindow::new(quota), SlidingLog::new(other)), [fixed_window(n, p), sliding_log(m, o)]),
        Subject::new("(gcra, sliding window)", (Gcra::new(quota).burst(b), SlidingWindow::new(other)), [meter(n, p, b), sliding_window(m, o)]),
        Subject::new(
            "(queue, window from first, strict)",
            (LeakyBucket::new(other).queue(), FixedWindow::new(quota).from_first_request(), SlidingBuckets::new(quota, step).strict()),
            [queue(m, o, m), window_from_first_request(n, p), strict_buckets(n, p, precision)],
        ),
        Subject::new(
            "(token bucket, buckets, log, interval)",
            (TokenBucket::new(quota).burst(b), SlidingBuckets::new(quota, step), SlidingLog::new(other), MinInterval::new(gap)),
            [meter(n, p, b), sliding_buckets(n, p, precision), sliding_log(m, o), min_interval(d)],
        ),
    ]
}
