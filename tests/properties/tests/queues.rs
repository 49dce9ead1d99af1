//! Queues in tuples: what is released when, whoever gives up.

use std::time::Duration;

use tollgate::{
    Quota,
    algorithm::{LeakyBucket, LeakyBucketQueue, MinInterval, TokenBucket},
};
use tollgate_properties::{
    formulas,
    model::Counts,
    search::{Search, worst},
    subject::Subject,
};

fn queue(n: u64, period: u64, capacity: u64) -> LeakyBucketQueue {
    let quota = Quota::new(n, Duration::from_micros(period));
    LeakyBucket::new(quota).capacity(capacity).queue()
}

fn releases(period: u64, largest_cost: u64) -> Search {
    Search {
        counts: Counts::Releases,
        withdrawals: true,
        before: period + 1,
        ..Search::units(period, largest_cost)
    }
}

#[test]
fn two_queues_release_no_more_than_the_slower_one() {
    let period = 4;
    let mut reached = 0;
    for (one, other) in [(1, 1), (1, 2), (2, 3), (3, 2), (4, 1)] {
        for (capacity, largest_cost) in [(1, 1), (2, 1), (2, 2), (3, 1)] {
            let rule = (queue(one, period, capacity), queue(other, period, 2));
            let bound =
                formulas::queue(one.min(other).into(), period.into(), 1, largest_cost.into());
            let worst = worst(&rule, releases(period, largest_cost));
            assert!(
                i128::from(worst.most) <= bound,
                "{one} and {other}: {bound} {worst:?}"
            );
            reached += usize::from(i128::from(worst.most) == bound);
        }
    }
    assert!(reached >= 10, "{reached} of 20");
}

#[test]
fn a_queue_and_a_bucket_release_no_more_than_the_queue() {
    let period = 4;
    for n in 1..=4 {
        let bucket = TokenBucket::new(Quota::new(n, Duration::from_micros(period)));
        for (capacity, largest_cost) in [(2, 1), (3, 2)] {
            let rule = (bucket.clone().burst(3), queue(n, period, capacity));
            let bound = formulas::queue(n.into(), period.into(), 1, largest_cost.into());
            let worst = worst(&rule, releases(period, largest_cost));
            assert!(i128::from(worst.most) <= bound, "{n}: {bound} {worst:?}");
        }
    }
}

/// The others in a tuple know when a request was admitted, not when it is released.
#[test]
fn beside_a_queue_an_interval_holds_between_admissions_and_not_between_releases() {
    let rule = (
        queue(5, 10, 20),
        MinInterval::new(Duration::from_micros(10)),
    );
    let mut bucket = Subject::new("tuple", rule, []).bucket;
    let mut release = |now, cost| {
        let decision = bucket.check(cost, now);
        assert!(decision.is_admitted());
        now + i128::try_from(decision.delay().as_micros()).unwrap()
    };
    assert_eq!(
        [release(0, 10), release(10, 1), release(20, 1)],
        [0, 20, 22]
    );
}
