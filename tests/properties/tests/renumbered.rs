//! A named policy keeps its state when its numbers change.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    Decision, Quota, RateLimiter, Timestamp,
    algorithm::{
        Algorithm, FixedWindow, Gcra, LeakyBucket, LeakyBucketQueue, MinInterval, SlidingBuckets,
        SlidingLog, SlidingWindow, TokenBucket,
    },
    clock::ManualClock,
    store::LocalStore,
};
use tollgate_properties::{
    conformance::every_algorithm,
    for_all,
    history::{History, LAST, any_history},
    numbers::{Numbers, numbers, small},
    replay::{Seen, replay, wait_of},
    subject::{Bucket, at_once},
};

/// Runs the history under the old numbers, and looks at each state under the old and the new ones.
fn renumbered(
    (old, new): (&Numbers, &Numbers),
    history: &History,
    mut holds: impl FnMut(&Seen<'_>, Box<dyn Bucket>) -> TestCaseResult,
) -> TestCaseResult {
    let (olds, news) = (every_algorithm(old), every_algorithm(new));
    olds.iter().zip(&news).try_for_each(|(old, new)| {
        replay(old, history, |seen| {
            let bucket = seen.bucket.with_the_numbers_of(&*new.bucket);
            holds(&seen, bucket)
        })
    })
}

/// The same periods, other units.
fn with_other_units(old: Numbers, new: Numbers) -> Numbers {
    Numbers {
        units: new.units,
        burst: new.burst,
        other_units: new.other_units,
        ..old
    }
}

#[test]
fn what_was_taken_stays_taken_when_only_the_units_change() {
    for_all((small(), small(), any_history()), |(old, new, history)| {
        let new = with_other_units(old, new);
        renumbered((&old, &new), &history, |seen, bucket| {
            // The rate at which a debt was paid off since it was last seen is not known: look right
            // after a charge.
            let admitted = seen.decision.as_ref().is_some_and(Decision::is_admitted);
            if !admitted || seen.cost.unwrap_or(0) == 0 {
                return Ok(());
            }
            let (before, after) = (seen.bucket.peek(0, seen.now), bucket.peek(0, seen.now));
            for (before, after) in before.policies().iter().zip(after.policies()) {
                let taken = before.limit() - before.remaining();
                let left = after.limit().saturating_sub(taken);
                // Where requests wait, the capacity has a fraction of a unit, which neither number
                // shows.
                let unknown = u64::from(before.policy().contains("-w"));
                let is_left = after.remaining().abs_diff(left) <= unknown;
                prop_assert!(is_left, "{left}: {before:?} {after:?}");
            }
            Ok(())
        })
    });
}

#[test]
fn the_announced_wait_and_what_remains_are_exact_under_the_new_numbers() {
    let cost = 1..5_u32;
    for_all(
        (numbers(), numbers(), any_history(), cost),
        |(old, new, history, cost)| {
            renumbered((&old, &new), &history, |seen, mut bucket| {
                let now = seen.now;
                let decision = bucket.check(cost, now);
                let wait = wait_of(&decision);
                if decision.retry_after().is_some() && now + wait <= LAST {
                    prop_assert!(!bucket.fork().check(cost, now + wait - 1).is_admitted());
                    prop_assert!(
                        bucket.fork().check(cost, now + wait).is_admitted(),
                        "{decision:?}"
                    );
                }
                if decision.remaining() < 100 {
                    for _ in 0..decision.remaining() {
                        prop_assert!(bucket.check(1, now).is_admitted());
                    }
                    prop_assert!(!bucket.check(1, now).is_admitted());
                }
                Ok(())
            })
        },
    );
}

const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// One name over two clones of a store: `taken` units under the old numbers, then what the new ones
/// say.
fn after_a_change<A: Algorithm>(
    old: A,
    new: A,
    taken: u32,
) -> (Decision, impl FnMut(Duration) -> Decision) {
    let clock = ManualClock::at(START);
    let store = LocalStore::builder().clock(clock.clone()).build();
    let old = RateLimiter::new(old, store.clone());
    assert!(at_once(old.check_cost("bob", taken)).unwrap().is_admitted());
    let new = RateLimiter::new(new, store);
    let at_the_change = at_once(new.peek("bob")).unwrap();
    let later = move |passed| {
        clock.set(START.saturating_add(passed));
        at_once(new.check("bob")).unwrap()
    };
    (at_the_change, later)
}

#[test]
fn a_named_policy_keeps_what_was_taken_under_its_old_numbers() {
    let (old, new) = (Quota::per_minute(10), Quota::per_minute(20));
    let kept = |decision: Decision| assert_eq!(decision.remaining(), 13, "{decision:?}");
    let step = Duration::from_secs(10);
    kept(
        after_a_change(
            FixedWindow::new(old).named("x"),
            FixedWindow::new(new).named("x"),
            7,
        )
        .0,
    );
    kept(
        after_a_change(
            SlidingLog::new(old).named("x"),
            SlidingLog::new(new).named("x"),
            7,
        )
        .0,
    );
    kept(
        after_a_change(
            SlidingWindow::new(old).named("x"),
            SlidingWindow::new(new).named("x"),
            7,
        )
        .0,
    );
    let buckets = |quota| SlidingBuckets::new(quota, step).named("x");
    kept(after_a_change(buckets(old), buckets(new), 7).0);
    kept(after_a_change(buckets(old).strict(), buckets(new).strict(), 7).0);
    kept(
        after_a_change(
            TokenBucket::new(old).named("x"),
            TokenBucket::new(new).named("x"),
            7,
        )
        .0,
    );
    kept(
        after_a_change(
            LeakyBucket::new(old).named("x"),
            LeakyBucket::new(new).named("x"),
            7,
        )
        .0,
    );
    kept(after_a_change(Gcra::new(old).named("x"), Gcra::new(new).named("x"), 7).0);
    let queue = |quota| LeakyBucket::new(quota).queue().named("x");
    kept(after_a_change(queue(old), queue(new), 7).0);
    let both = |quota| {
        (
            TokenBucket::new(quota).named("x"),
            SlidingLog::new(quota).named("y"),
        )
    };
    kept(after_a_change(both(old), both(new), 7).0);
    let gap = |seconds| MinInterval::new(Duration::from_secs(seconds)).named("x");
    let (decision, _) = after_a_change(gap(5), gap(60), 1);
    assert_eq!(decision.retry_after(), Some(Duration::from_secs(60)));
}

#[test]
fn other_rates_keep_the_debt_to_one_part_in_four_thousand() {
    let rates = [
        (999_983, 86_400_000),
        (1_000, 1_000),
        (7, 13_000),
        (10_000_019, 3_600_000),
        (86_400, 7_000),
        // These two differ by less than a state remembers of its scale.
        (1, 10_000),
        (1, 10_001),
    ];
    let quotas = rates.map(|(units, millis)| Quota::new(units, Duration::from_millis(millis)));
    for old in quotas {
        for new in quotas {
            let bucket = |quota| Gcra::new(quota).burst(1_000_000).named("x");
            let (decision, _) = after_a_change(bucket(old), bucket(new), 500_000);
            let off = decision.remaining().abs_diff(500_000);
            assert!(off <= 500_000 / 4_096 + 1, "{old:?} {new:?}: {decision:?}");
        }
    }
}

#[test]
fn a_caller_in_debt_beyond_a_lowered_burst_is_admitted_again_when_it_is_paid() {
    let bucket = |burst| {
        TokenBucket::new(Quota::per_second(1))
            .burst(burst)
            .named("x")
    };
    let (_, mut later) = after_a_change(bucket(100), bucket(10), 100);
    let refused = later(Duration::from_secs(50));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(41)));
    assert!(!later(Duration::from_millis(90_999)).is_admitted());
    assert!(later(Duration::from_secs(91)).is_admitted());
}

#[test]
fn a_place_in_a_queue_is_given_back_under_other_numbers_only_if_it_is_the_last() {
    let queue = |units| {
        let bucket = LeakyBucket::new(Quota::per_second(units)).capacity(10);
        bucket.queue().named("x")
    };
    let (slow, fast) = (queue(10), queue(20));
    let left = |rule: &LeakyBucketQueue, state: &_| {
        let snapshot = rule.snapshot(state, 0, true, START);
        rule.decision(&snapshot).remaining()
    };
    let mut state = slow.fresh(START);
    assert!(slow.step(&mut state, 1, START).0);
    let (admitted, last) = slow.step(&mut state, 1, START);
    assert!(admitted);

    // Somebody was refused under the other numbers meanwhile: the turn is still the last.
    let mut refused = state.clone();
    assert!(!fast.step(&mut refused, 100, START).0);
    slow.withdraw(&mut refused, &last, 1, START);
    assert_eq!(left(&slow, &refused), 9);

    // Two came after it under the other numbers, which count as many parts for four as the old ones
    // for two.
    assert!(fast.step(&mut state, 1, START).0);
    assert!(fast.step(&mut state, 1, START).0);
    let before = left(&fast, &state);
    slow.withdraw(&mut state, &last, 1, START);
    fast.mend(&mut state, START);
    assert_eq!(left(&fast, &state), before);
}

#[test]
fn a_state_that_was_not_charged_for_as_long_as_its_numbers_matter_is_fresh() {
    for_all((numbers(), any_history()), |(numbers, history)| {
        for subject in every_algorithm(&numbers) {
            // The limiter's own time never steps back.
            let mut own = 0;
            replay(&subject, &history, |seen| {
                own = own.max(seen.now);
                let matters_for = seen.bucket.matters_for();
                prop_assert!(
                    seen.bucket.is_fresh(own + matters_for),
                    "after {matters_for} µs"
                );
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn a_state_of_two_sets_of_numbers_is_fresh_as_soon_after_a_charge_as_the_slower_one_says() {
    for_all(
        (numbers(), numbers(), any_history()),
        |(old, new, history)| {
            let (olds, news) = (every_algorithm(&old), every_algorithm(&new));
            olds.iter().zip(&news).try_for_each(|(old, new)| {
                let mut own = 0;
                replay(old, &history, |seen| {
                    own = own.max(seen.now);
                    let mut bucket = seen.bucket.with_the_numbers_of(&*new.bucket);
                    if bucket.check(1, seen.now).is_admitted() {
                        let matters_for = bucket.matters_for().max(seen.bucket.matters_for());
                        prop_assert!(bucket.is_fresh(own + matters_for), "after {matters_for} µs");
                    }
                    Ok(())
                })
            })
        },
    );
}
