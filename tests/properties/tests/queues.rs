//! Queues in tuples: what is released when, whoever gives up.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    Quota, Timestamp,
    algorithm::{Ending, KeyLimit, LeakyBucket, LeakyBucketQueue, TokenBucket},
};
use tollgate_properties::{
    claims::most_in,
    for_all, formulas,
    model::Counts,
    search::{Search, worst},
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
            let is_within = i128::from(worst.most) <= bound;
            assert!(is_within, "{one} and {other}: {bound} {worst:?}");
            reached += usize::from(i128::from(worst.most) == bound);
        }
    }
    assert!(reached >= 10, "{reached} of 20");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    Ask(u32),
    /// One of those who wait.
    GiveUp(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..=5_u64).prop_map(Step::Wait),
        5 => (1..=3_u32).prop_map(Step::Ask),
        2 => any::<usize>().prop_map(Step::GiveUp),
    ];
    prop::collection::vec(step, 1..60)
}

/// A request that asks later is let go later, unless the earlier one has given up; and all together
/// stay within the bound.
fn nobody_overtakes<A: KeyLimit>(
    rule: &A,
    steps: &[Step],
    (period, bound): (u64, i128),
) -> TestCaseResult {
    let (mut state, mut now) = (rule.fresh(Timestamp::default()), 1_000);
    let mut turns: Vec<(u64, u32, A::Snapshot)> = Vec::new();
    for step in steps {
        match *step {
            Step::Wait(micros) => now += micros,
            Step::Ask(cost) => {
                let (admitted, admission) =
                    rule.step(&mut state, cost, Timestamp::from_micros(now));
                if !admitted {
                    continue;
                }
                let delay = u64::try_from(rule.delay_of(&admission).as_micros()).unwrap();
                let release = now + delay;
                let last = turns.last().map_or(0, |(release, ..)| *release);
                prop_assert!(release >= last, "{release} before {last} in {steps:?}");
                turns.push((release, cost, admission));
            }
            Step::GiveUp(which) => {
                let waiting = turns.iter().filter(|(release, ..)| *release > now).count();
                if waiting > 0 {
                    let (_, cost, admission) = turns.remove(turns.len() - 1 - which % waiting);
                    let now = Timestamp::from_micros(now);
                    rule.end(&mut state, &admission, Ending::Withdrawn { cost }, now);
                }
            }
        }
    }
    let released = |(at, cost, _): &(u64, u32, _)| (i128::from(*at), i128::from(*cost));
    let released: Vec<_> = turns.iter().map(released).collect();
    let most = most_in(&released, period.into());
    prop_assert!(most <= bound, "{} of {} in {:?}", most, bound, steps);
    Ok(())
}

#[test]
fn nobody_is_let_go_before_one_who_asked_earlier_whoever_gives_up() {
    let numbers = (1..=6_u64, 1..=9_u64, 1..=4_u64, 0..=20_u64);
    for_all((numbers, steps()), |((n, period, burst, wait), steps)| {
        let quota = Quota::new(n, Duration::from_micros(period));
        let bucket = TokenBucket::new(quota).burst(burst);
        let waits = bucket.wait_at_most(Duration::from_micros(wait));
        let [units, span, most] = [n, period, burst].map(i128::from);
        let bound = formulas::wait_at_most(units, span, 1, most, 3);
        nobody_overtakes(&waits, &steps, (period, bound))?;
        let bound = formulas::queue(units, span, 1, 3);
        nobody_overtakes(&queue(n, period, 20), &steps, (period, bound))
    });
}
