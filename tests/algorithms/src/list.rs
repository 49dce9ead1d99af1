//! Every algorithm, in one list. The properties, the tests in Redis, those of threads and plans,
//! the pins of the scripts and the benches read it: an algorithm with a line here is in all of
//! them.
//!
//! A file that calls it imports `tollgate::algorithm::*`, so that a new algorithm needs no further
//! line there.

/// Calls the macro `$then` with all algorithms, each as `"name", how it is made, its slow model;`.
///
/// They are made from four variables: a quota, a burst, a precision that divides the period, and an
/// interval. The model, in `tests/algorithms/src/model`, takes fields of `Numbers`.
#[macro_export]
#[rustfmt::skip]
macro_rules! every_algorithm {
    ($then:ident, $quota:ident, $burst:ident, $precision:ident, $interval:ident) => {
        $then! {
            ($quota, $burst, $precision, $interval)
            "fixed window", FixedWindow::new($quota), fixed_window(units, period);
            "window from first request", FixedWindow::new($quota).from_first_request(), window_from_first_request(units, period);
            "sliding log", SlidingLog::new($quota), sliding_log(units, period);
            "sliding window", SlidingWindow::new($quota), sliding_window(units, period);
            "sliding buckets", SlidingBuckets::new($quota, $precision), sliding_buckets(units, period, precision);
            "strict buckets", SlidingBuckets::new($quota, $precision).strict(), strict_buckets(units, period, precision);
            "token bucket", TokenBucket::new($quota), debt_bucket(units, period, units);
            "token bucket with burst", TokenBucket::new($quota).burst($burst), debt_bucket(units, period, burst);
            "leaky bucket", LeakyBucket::new($quota).capacity($burst), debt_bucket(units, period, burst);
            "leaky bucket queue", LeakyBucket::new($quota).capacity($burst).queue(), queue(units, period, burst);
            "leaky bucket that waits", LeakyBucket::new($quota).wait_at_most($interval), wait_at_most(units, period, units, interval);
            "token bucket that waits", TokenBucket::new($quota).burst($burst).wait_at_most($interval), wait_at_most(units, period, burst, interval);
            "gcra", Gcra::new($quota).burst($burst), debt_bucket(units, period, burst);
            "min interval", MinInterval::new($interval), min_interval(interval);
            "token bucket per request", TokenBucket::new($quota).burst($burst).per_request(), debt_bucket_per_request(units, period, burst);
            "sliding log per request", SlidingLog::new($quota).per_request(), sliding_log_per_request(units, period);
        }
    };
}
