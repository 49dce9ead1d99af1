//! Several numbers under one name: another shape begins anew. That what was used counts on while
//! the shape stays is shown by `in_turn.rs` of the properties.

use std::time::Duration;

use crate::local::store;
use crate::ready::ready;
use tollgate::{Decision, Quota, RateLimiter, algorithm::*};

/// A caller with two plans: asks under the first or the second of them, for so much. Of a cost of 0
/// it is told what is left.
fn caller<A: KeyLimit>(plans: [A; 2]) -> impl Fn(usize, u32) -> Decision {
    let (store, _clock) = store(10);
    let limiters = plans.map(|plan| RateLimiter::new(plan, store.clone()));
    move |plan, cost| ready(limiters[plan].check_cost(&1, cost)).unwrap()
}

/// Whoever has spent everything under one plan has everything under the other, and the other way
/// round.
fn begins_anew<A: KeyLimit>(why: &str, plans: [A; 2]) {
    let ask = caller(plans);
    for plan in [0, 1] {
        let all = ask(plan, 0);
        assert_eq!(all.remaining(), all.limit(), "{why}");
        assert!(ask(plan, 5).is_admitted(), "{why}");
    }
    for plan in [0, 1] {
        let told = ask(plan, 0);
        assert_eq!(told.remaining(), told.limit() - 5, "{why}");
    }
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
    let never = TokenBucket::new(Quota::per_minute(0)).named("x");
    let ask = caller([never, TokenBucket::new(minute).named("x")]);
    assert!(ask(1, 10).is_admitted());
    assert!(ask(0, 1).never_fits());
}
