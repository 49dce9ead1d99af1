//! A named policy whose numbers change decides over Redis as the rule does.

use proptest::{prelude::*, test_runner::TestCaseResult};
use tollgate::clock::ManualClock;
use tollgate_properties::{
    conformance::every_algorithm,
    history::{Cost, History, Op, any_history_with_debits},
    numbers::{Numbers, numbers, small},
    subject::{Subject, instant},
};
use tollgate_redis_tests::{Redis, Twin};

const HISTORIES: u32 = 480;

/// Two to four plans. Most of them differ in nothing but units, bursts and intervals, as windows of
/// one name must.
fn plans() -> impl Strategy<Value = Vec<Numbers>> {
    prop_oneof![
        3 => prop::collection::vec(small(), 2..=4).prop_map(of_one_shape),
        2 => prop::collection::vec(small(), 2..=4),
        2 => prop::collection::vec(numbers(), 2..=3),
        1 => prop::collection::vec(numbers(), 2..=3).prop_map(of_one_shape),
    ]
}

fn of_one_shape(mut plans: Vec<Numbers>) -> Vec<Numbers> {
    let Numbers {
        period,
        precision,
        other_period,
        ..
    } = plans[0];
    for plan in &mut plans {
        *plan = Numbers {
            // At a larger rate what is paid off in a wait of a minute cannot be counted.
            units: plan.units.min(100_000_000),
            period,
            precision,
            other_period,
            ..*plan
        };
    }
    plans
}

/// What all numbers of one name must share, to share a state.
fn shape(subject: &Subject) -> Vec<Vec<i128>> {
    let models = subject.models.iter();
    models.map(|model| model.shape()).collect()
}

/// The plan of each step is one of these, of every algorithm for which they share a state.
fn is_the_pure_rules(
    redis: &Redis,
    plans: &[Numbers],
    history: &History,
    plan_of: impl Fn(usize) -> usize,
) -> TestCaseResult {
    let all: Vec<Vec<Subject>> = plans.iter().map(every_algorithm).collect();
    for (which, owner) in all[0].iter().enumerate() {
        if all.iter().any(|plan| shape(&plan[which]) != shape(owner)) {
            continue;
        }
        let clock = ManualClock::at(instant(history.start));
        let (pooled, key) = (redis.pooled_store(clock.clone()), redis.new_key());
        let limiters: Vec<_> = (all.iter())
            .map(|plan| {
                let bucket = &plan[which].bucket;
                redis.blocking(bucket.limiter_over(pooled.store(), key.clone(), &*owner.bucket))
            })
            .collect();
        let mut twin = Twin::of(&*owner.bucket);
        let (mut now, mut wait) = (history.start, 0);
        for (index, step) in history.steps.iter().enumerate() {
            let plan = plan_of(index);
            let subject = &all[plan][which];
            twin.renumber(&*subject.bucket);
            // Each state has a time of its own, in memory that of a `MinInterval` has none: so the
            // clock does not step back.
            now = step.turn.of(now, wait, subject).max(now);
            clock.set(instant(now));
            // No debt becomes too large to be counted: then the order of charges matters.
            let op = match step.op {
                Op::Debit(Cost::Huge) => Op::Debit(Cost::Limit),
                op => op,
            };
            let stepped = twin.steps_as(&*limiters[plan], op, subject.limit(), now);
            let place = format!("{} at {now}, step {index}, plan {plan}", subject.name);
            let failed = |error| TestCaseError::fail(format!("{place}: {error}"));
            wait = stepped.map_err(failed)?.unwrap_or(wait);
        }
    }
    Ok(())
}

#[test]
fn plans_in_turn_are_the_pure_rules() {
    let redis = Redis::start();
    let turns = || prop::collection::vec(any::<u8>(), 80);
    let values = || (plans(), any_history_with_debits(), turns());
    redis.for_all(HISTORIES, values, |(plans, history, turns)| {
        is_the_pure_rules(&redis, &plans, &history, |step| {
            usize::from(turns[step]) % plans.len()
        })
    });
}
