//! The store in Redis decides as the rule does, in every field, whatever happened before.

use proptest::test_runner::TestCaseResult;
use tollgate::clock::ManualClock;
use tollgate_properties::{
    claims::{self, Open},
    conformance::every_algorithm,
    history::{History, any_history, any_history_with_debits, checks, forward_history},
    numbers::numbers,
    subject::{Bucket, Subject, instant},
};
use tollgate_redis_tests::{Redis, the_decisions_are_the_rules};

/// With some twelve steps each, more than ten thousand steps of every algorithm.
const HISTORIES: u32 = 1_200;

/// The slow model has a test of its own: here it is only compared with this store.
const FEWER_HISTORIES: u32 = 72;

fn is_the_pure_rules<S: proptest::strategy::Strategy<Value = History>>(
    histories: impl Fn() -> S + Sync,
) {
    let redis = Redis::start();
    let values = || (numbers(), histories());
    redis.for_all(HISTORIES, values, |(numbers, history)| {
        every_algorithm(&numbers).iter().try_for_each(|subject| {
            let clock = ManualClock::at(instant(history.start));
            let limiter = redis.limiter(&*subject.bucket, clock.clone());
            the_decisions_are_the_rules(subject, &history, &*limiter, &clock)
        })
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn every_decision_is_the_pure_rules_in_every_field() {
    is_the_pure_rules(any_history);
}

#[test]
fn every_decision_after_debits_is_the_pure_rules_in_every_field() {
    is_the_pure_rules(any_history_with_debits);
}

fn holds_over_redis<S: proptest::strategy::Strategy<Value = History>>(
    histories: impl Fn() -> S + Sync,
    claim: impl Fn(&Subject, &History, Open<'_>) -> TestCaseResult + Sync,
) {
    let redis = Redis::start();
    let values = || (numbers(), histories());
    redis.for_all(FEWER_HISTORIES, values, |(numbers, history)| {
        let open = |bucket: &dyn Bucket, clock| redis.limiter(bucket, clock);
        every_algorithm(&numbers)
            .iter()
            .try_for_each(|subject| claim(subject, &history, &open))
    });
}

#[test]
fn every_decision_is_the_slow_models_in_every_field() {
    holds_over_redis(forward_history, claims::every_decision_is_the_models);
}

#[test]
fn the_printed_bound_is_never_passed() {
    holds_over_redis(checks, claims::the_bound_is_never_passed);
}

#[test]
fn a_refused_request_a_cost_of_0_and_a_look_change_nothing() {
    holds_over_redis(forward_history, claims::a_refused_request_changes_nothing);
}

#[test]
fn the_announced_wait_is_exact() {
    holds_over_redis(any_history, claims::the_announced_wait_is_exact);
}

#[test]
fn exactly_what_remains_is_admitted() {
    holds_over_redis(any_history, claims::what_remains_is_true);
}
