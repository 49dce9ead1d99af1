//! The store in Redis decides as the rule does, in every field, whatever happened before.

use tollgate::clock::ManualClock;
use tollgate_properties::{
    conformance::every_algorithm, history::any_history_with_debits, numbers::numbers,
    subject::instant,
};
use tollgate_redis_tests::{Redis, the_decisions_are_the_rules};

/// With some twelve steps each, more than ten thousand steps of every algorithm.
const HISTORIES: u32 = 1_200;

#[test]
fn every_decision_is_the_pure_rules_in_every_field() {
    let redis = Redis::start();
    let values = || (numbers(), any_history_with_debits());
    redis.for_all(HISTORIES, values, |(numbers, history)| {
        every_algorithm(&numbers).iter().try_for_each(|subject| {
            let clock = ManualClock::at(instant(history.start));
            let limiter = redis.limiter(&*subject.bucket, clock.clone());
            the_decisions_are_the_rules(subject, &history, &*limiter, &clock)
        })
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}
