//! One key over the server, whose decisions are the pure rule's.

use proptest::test_runner::{TestCaseError, TestCaseResult};
use tollgate::{algorithm::Scripted, clock::ManualClock, store::RedisStore};
use tollgate_properties::{
    alike::{Story, decides_as_the_rule},
    conformance::{Make, every_algorithm_by},
    numbers::Numbers,
    subject::{Models, Subject, instant},
};

use crate::store::Redis;

struct OverRedis;

impl Make for OverRedis {
    fn make(name: &'static str, rule: impl Scripted, models: impl Into<Models>) -> Subject {
        Subject::over_redis(name, rule, models)
    }
}

/// Every algorithm with these numbers, and a few tuples, in Redis.
pub fn every_algorithm(numbers: &Numbers) -> Vec<Subject> {
    every_algorithm_by::<OverRedis>(numbers)
}

/// Every decision of these plans in Redis, over one key, is that of the pure rule in every field.
///
/// # Errors
///
/// One is not.
pub fn redis_decides_as_the_rule(
    redis: &Redis,
    plans: &[Subject],
    story: &Story<'_>,
) -> TestCaseResult {
    let clock = ManualClock::at(instant(story.history.start));
    store_decides_as_the_rule(redis, &redis.store(clock.clone()), &clock, plans, story)
}

/// The same of a store with this clock.
///
/// # Errors
///
/// One is not.
pub fn store_decides_as_the_rule(
    redis: &Redis,
    store: &RedisStore,
    clock: &ManualClock,
    plans: &[Subject],
    story: &Story<'_>,
) -> TestCaseResult {
    let key = redis.new_key();
    let over = |plan: &Subject| plan.bucket.limiter_over(store.clone(), key.clone());
    let over_redis: Vec<_> = plans.iter().map(over).collect();
    decides_as_the_rule(plans, story, &mut |plan, call, now, _| {
        clock.set(instant(now));
        let answer = redis.wait(over_redis[plan].ask(call));
        answer.map_err(|error| TestCaseError::fail(format!("{call:?}: {error:?}")))
    })
}
