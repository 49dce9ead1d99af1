//! The store in Redis decides as the rule does, in every field, whatever happened before.

use std::slice::from_ref;

use tollgate_properties::{alike::Story, history::any_history_with_debits, numbers::numbers};
use tollgate_redis_tests::{Redis, every_algorithm, redis_decides_as_the_rule};

/// With some twelve steps each, more than ten thousand steps of every algorithm.
const HISTORIES: u32 = 1_200;

#[test]
fn every_decision_is_the_pure_rules_in_every_field() {
    let redis = Redis::start();
    let values = || (numbers(), any_history_with_debits());
    redis.for_all(HISTORIES, values, |(numbers, history)| {
        every_algorithm(&numbers).iter().try_for_each(|subject| {
            redis_decides_as_the_rule(&redis, from_ref(subject), &Story::of(&history))
        })
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}
