//! A named policy whose numbers change decides over Redis as the rule does.

use proptest::{prelude::*, test_runner::TestCaseError};
use tollgate::clock::ManualClock;
use tollgate_properties::{
    conformance::every_algorithm,
    history::any_history,
    numbers::numbers,
    subject::{Subject, instant},
};
use tollgate_redis_tests::{Redis, Twin};

const HISTORIES: u32 = 480;

#[test]
fn a_policy_whose_numbers_change_is_the_pure_rules() {
    let redis = Redis::start();
    let values = || (numbers(), numbers(), any_history(), any::<u8>());
    redis.for_all(HISTORIES, values, |(old, new, history, part)| {
        let change = history.steps.len() * usize::from(part) / 255;
        let (olds, news) = (every_algorithm(&old), every_algorithm(&new));
        olds.iter().zip(&news).try_for_each(|(old, new)| {
            let clock = ManualClock::at(instant(history.start));
            let (store, key) = (redis.store(clock.clone()), redis.new_key());
            let open = |subject: &Subject| {
                let bucket = &subject.bucket;
                redis.blocking(bucket.limiter_over(store.clone(), key.clone(), &*old.bucket))
            };
            let mut twin = Twin::of(&*old.bucket);
            let (mut subject, mut limiter) = (old, open(old));
            let (mut now, mut wait) = (history.start, 0);
            for (index, step) in history.steps.iter().enumerate() {
                if index == change {
                    (subject, limiter) = (new, open(new));
                    twin.renumber(&*new.bucket);
                }
                now = step.turn.of(now, wait, subject);
                clock.set(instant(now));
                let stepped = twin.steps_as(&*limiter, step.op, subject.limit(), now);
                let place = format!("{} at {now}, step {index}, changed at {change}", new.name);
                let failed = |error| TestCaseError::fail(format!("{place}: {error}"));
                wait = stepped.map_err(failed)?.unwrap_or(wait);
            }
            Ok(())
        })
    });
}
