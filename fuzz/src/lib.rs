//! What several targets fuzz.

use std::time::Duration;

use tollgate::algorithm::{InFlight, SlidingLog, TokenBucket};
use tollgate_properties::{numbers::Numbers, subject::Subject};
use tollgate_redis_tests::every_algorithm;

/// Every algorithm, and some that hold units.
pub fn every_limit() -> Vec<Subject> {
    let numbers = Numbers::new((50, 10_000), 40, 100, 1).beside(60, 20_000);
    let (quota, longest) = (numbers.quota(), Duration::from_secs(1));
    let mut all = every_algorithm(&numbers);
    let bucket = TokenBucket::new(quota).named("held").settled();
    all.push(Subject::over_redis(
        "held bucket",
        bucket.held_at_most(longest),
        [],
    ));
    let log = SlidingLog::new(quota).named("held").settled();
    all.push(Subject::over_redis(
        "held log",
        log.held_at_most(longest),
        [],
    ));
    let places = InFlight::new(9).held_at_most(longest);
    all.push(Subject::over_redis("in flight", places, []));
    all
}
