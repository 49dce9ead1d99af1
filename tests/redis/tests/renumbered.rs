//! A named policy whose numbers change decides over Redis as the rule does.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::{
    Quota, RateLimiter,
    algorithm::{FixedWindow, SlidingBuckets, SlidingWindow},
    clock::ManualClock,
};
use tollgate_properties::{
    conformance::every_algorithm,
    history::{Cost, History, Op, any_history_with_debits},
    model::{fixed_window, sliding_window, window_from_first_request},
    numbers::{Numbers, numbers, small},
    subject::{Subject, instant},
};
use tollgate_redis_tests::{Redis, Twin};

const HISTORIES: u32 = 480;

/// The plan of each step is one of up to four.
fn is_the_pure_rules(
    redis: &Redis,
    plans: &[Numbers],
    history: &History,
    plan_of: impl Fn(usize) -> usize,
) -> TestCaseResult {
    let all: Vec<Vec<Subject>> = plans.iter().map(every_algorithm).collect();
    subjects_are_the_pure_rules(redis, &all, history, plan_of)
}

/// The same for these subjects of each plan.
fn subjects_are_the_pure_rules(
    redis: &Redis,
    all: &[Vec<Subject>],
    history: &History,
    plan_of: impl Fn(usize) -> usize,
) -> TestCaseResult {
    (0..all[0].len()).try_for_each(|which| {
        let clock = ManualClock::at(instant(history.start));
        let (pooled, key) = (redis.pooled_store(clock.clone()), redis.new_key());
        let owner = &all[0][which].bucket;
        let limiters: Vec<_> = (all.iter())
            .map(|plan| {
                let bucket = &plan[which].bucket;
                redis.blocking(bucket.limiter_over(pooled.store(), key.clone(), &**owner))
            })
            .collect();
        let mut twin = Twin::of(&**owner);
        let (mut now, mut wait) = (history.start, 0);
        for (index, step) in history.steps.iter().enumerate() {
            let plan = plan_of(index);
            let subject = &all[plan][which];
            twin.renumber(&*subject.bucket);
            now = step.turn.of(now, wait, subject);
            clock.set(instant(now));
            let stepped = twin.steps_as(&*limiters[plan], step.op, subject.limit(), now);
            let place = format!("{} at {now}, step {index}, plan {plan}", subject.name);
            let failed = |error| TestCaseError::fail(format!("{place}: {error}"));
            wait = stepped.map_err(failed)?.unwrap_or(wait);
        }
        Ok(())
    })
}

#[test]
fn a_policy_whose_numbers_change_is_the_pure_rules() {
    let redis = Redis::start();
    let values = || (numbers(), numbers(), any_history_with_debits(), any::<u8>());
    redis.for_all(HISTORIES, values, |(old, new, history, part)| {
        let change = history.steps.len() * usize::from(part) / 255;
        is_the_pure_rules(&redis, &[old, new], &history, |step| {
            usize::from(step >= change)
        })
    });
}

#[test]
fn plans_in_turn_are_the_pure_rules() {
    let redis = Redis::start();
    let plans = || {
        prop_oneof![
            3 => prop::collection::vec(small(), 2..=4),
            1 => prop::collection::vec(numbers(), 2..=3),
        ]
    };
    let values = || {
        (
            plans(),
            any_history_with_debits(),
            prop::collection::vec(any::<u8>(), 80),
        )
    };
    redis.for_all(HISTORIES, values, |(plans, history, turns)| {
        is_the_pure_rules(&redis, &plans, &history, |step| {
            usize::from(turns[step]) % plans.len()
        })
    });
}

#[test]
fn windows_of_a_period_that_open_otherwise_are_two_plans() {
    let redis = Redis::start();
    let values = || {
        (
            prop::collection::vec(small(), 2),
            any_history_with_debits(),
            prop::collection::vec(any::<u8>(), 80),
        )
    };
    redis.for_all(HISTORIES, values, |(numbers, history, turns)| {
        let windows = numbers.iter().flat_map(|numbers| {
            let (n, p, rule) = (
                numbers.units,
                numbers.period,
                FixedWindow::new(numbers.quota()),
            );
            let aligned = Subject::new("aligned", rule.clone(), [fixed_window(n, p)]);
            let from_first = Subject::new(
                "from first",
                rule.from_first_request(),
                [window_from_first_request(n, p)],
            );
            [vec![aligned], vec![from_first]]
        });
        let windows: Vec<_> = windows.collect();
        // Some alternate between the two of one period.
        let plans = 2 + 2 * (turns[0] % 2);
        subjects_are_the_pure_rules(&redis, &windows, &history, |step| {
            usize::from(turns[step] / 2 % plans)
        })
    });
}

#[test]
fn a_log_beside_a_state_that_is_mended_keeps_what_may_count_again() {
    let redis = Redis::start();
    let numbers = |units, period, precision| Numbers {
        units,
        period,
        burst: 1,
        precision,
        interval: 1,
        other_units: units,
        other_period: precision.min(9),
    };
    let the_one = |numbers| {
        let mut all = every_algorithm(&numbers).into_iter();
        all.find(|subject| subject.name == "(queue, window from first, strict)")
            .unwrap()
    };
    let old = the_one(Numbers {
        other_period: 1_000_000,
        ..numbers(20, 1_000_000, 1_000_000)
    });
    let new = the_one(numbers(1, 14, 14));
    let clock = ManualClock::at(instant(38));
    let (store, key) = (redis.store(clock.clone()), redis.new_key());
    let mut twin = Twin::of(&*old.bucket);
    for (subject, now, cost) in [(&old, 38, 1), (&new, 28, 0), (&new, 27, 0), (&new, 50, 1)] {
        clock.set(instant(now));
        twin.renumber(&*subject.bucket);
        let limiter = subject
            .bucket
            .limiter_over(store.clone(), key.clone(), &*old.bucket);
        let op = Op::Check(Cost::Units(cost));
        twin.steps_as(&*redis.blocking(limiter), op, 0, now)
            .unwrap();
    }
}

#[test]
fn a_window_of_a_far_larger_old_quota_weighs_the_same_after_a_long_step_back() {
    let redis = Redis::start();
    let day = 86_400_000_000_u64;
    let window = |units: u64| {
        let rule = SlidingWindow::new(Quota::new(units, Duration::from_micros(day)));
        Subject::new("window", rule, [sliding_window(units, day)])
    };
    let start = 1_700_000_000_000_000;
    let (old, news) = (
        window(1_000_000_007),
        [1, 7, 50_000, 10_000_019].map(window),
    );
    for new in &news {
        let clock = ManualClock::at(instant(start));
        let (store, key) = (redis.store(clock.clone()), redis.new_key());
        let open = |subject: &Subject| {
            let bucket = &subject.bucket;
            redis.blocking(bucket.limiter_over(store.clone(), key.clone(), &*old.bucket))
        };
        let mut twin = Twin::of(&*old.bucket);
        let mut steps = |subject: &Subject, now: i128, cost: u32| {
            clock.set(instant(now));
            twin.renumber(&*subject.bucket);
            let op = Op::Check(Cost::Units(cost));
            twin.steps_as(&*open(subject), op, 0, now).unwrap();
        };
        steps(&old, start, 999_999_937);
        steps(&old, start + i128::from(day), 1);
        steps(new, start + 1, 1);
        steps(new, start - 3 * i128::from(day) - 12_345, 1);
        steps(new, start - 3 * i128::from(day), 1);
        steps(&old, start - 3 * i128::from(day), 1);
        steps(&old, start, 100);
    }
}

#[test]
fn two_plans_whose_entries_matter_as_long_and_lie_in_other_slots_are_two_plans() {
    let redis = Redis::start();
    let plan = |period: u64, precision: u64| {
        let quota = Quota::new(7, Duration::from_micros(period));
        SlidingBuckets::new(quota, Duration::from_micros(precision))
            .strict()
            .named("api")
    };
    let plans = [plan(16, 16), plan(40, 4), plan(16, 16), plan(40, 4)];
    let clock = ManualClock::at(instant(1_700_000_000_000_000));
    let (store, key) = (redis.store(clock.clone()), redis.new_key());
    let limiters = plans.map(|plan| RateLimiter::new(plan, store.clone()));
    let asks = [
        (12, 1, 7, true),
        (48, 0, 1, true),
        (49, 1, 1, false),
        (60, 3, 6, true),
    ];
    for (micros, plan, cost, admitted) in asks {
        clock.set(instant(1_700_006_400_000_000 + micros));
        let limiter: &RateLimiter<_, _> = &limiters[plan];
        let decision = redis.wait(limiter.check_cost(&key, cost)).unwrap();
        assert_eq!(decision.is_admitted(), admitted, "at {micros} µs");
    }
}
