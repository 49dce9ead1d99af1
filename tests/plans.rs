//! Several numbers under one name: another shape begins anew. That what was used counts on while
//! the shape stays is shown by `in_turn.rs` of the properties.

use std::time::Duration;

use crate::local::store;
use crate::ready::ready;
use tollgate::{Quota, RateLimiter, algorithm::*};

/// What was spent under one plan leaves everything under the other, and the other way round.
fn begins_anew<A: KeyLimit>(why: &str, plans: [A; 2]) {
    let (store, _clock) = store(10);
    let limiters = plans.map(|plan| RateLimiter::new(plan, store.clone()));
    for limiter in &limiters {
        let told = ready(limiter.check_cost(&1, 5)).unwrap();
        assert_eq!(told.remaining(), told.limit() - 5, "{why}");
    }
    let told = ready(limiters[0].peek(&1)).unwrap();
    assert_eq!(told.remaining(), told.limit() - 5, "{why}");
}

#[test]
fn another_shape_begins_anew_and_so_do_numbers_without_a_name() {
    let seconds = Duration::from_secs;
    let (minute, hour) = (Quota::per_minute(10), Quota::per_hour(10));
    let window = FixedWindow::new;
    let buckets = |precision| SlidingBuckets::new(minute, seconds(precision));
    // A million and one a day are counted in ticks of more than a microsecond.
    let coarse = Quota::per_day(1_000_001);
    macro_rules! begin_anew {
        ($($why:literal: $one:expr, $other:expr;)+) => {
            $(begins_anew($why, [$one.named("x"), $other.named("x")]);)+
        };
    }
    begin_anew! {
        "period": window(minute), window(hour);
        "opens": window(minute), window(minute).from_first_request();
        "period": SlidingWindow::new(minute), SlidingWindow::new(hour);
        "period": SlidingLog::new(minute), SlidingLog::new(hour);
        "precision": buckets(10), buckets(20);
        "strict": buckets(10), buckets(10).strict();
        "tick": TokenBucket::new(coarse), TokenBucket::new(minute);
    }
    let unnamed = [10, 20].map(|units| TokenBucket::new(Quota::per_minute(units)));
    begins_anew("unnamed", unnamed);
    let names = ["x", "y"].map(|name| TokenBucket::new(minute).named(name));
    begins_anew("names", names);
    let (store, _clock) = store(10);
    let [never, some] = [0, 10].map(|units| {
        let bucket = TokenBucket::new(Quota::per_minute(units)).named("x");
        RateLimiter::new(bucket, store.clone())
    });
    assert!(ready(some.check_cost(&1, 10)).unwrap().is_admitted());
    assert!(ready(never.check(&1)).unwrap().never_fits());
}
