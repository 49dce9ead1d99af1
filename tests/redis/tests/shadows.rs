//! A limit in shadow over Redis has the state of that limit, enforced alone, over exactly the
//! requests that the enforced limits admit: it is the pure rule's, for which `shadows.rs` of the
//! crate shows that. Across slots, `several_keys.rs` compares it with that in memory.

use std::slice::from_ref;

use tollgate::{Quota, RateLimiter, algorithm::*};
use tollgate_algorithms::for_every_algorithm;
use tollgate_properties::{
    alike::Story,
    history::{Op, any_history_with_debits},
    model::sliding_log,
    numbers::numbers,
    subject::Subject,
};
use tollgate_redis_tests::{Redis, redis_decides_as_the_rule};

#[test]
fn beside_an_enforced_limit_it_is_the_pure_rules_in_every_field() {
    let redis = Redis::start();
    let values = || (numbers(), any_history_with_debits());
    redis.for_all(120, values, |(numbers, history)| {
        let (quota, burst) = (numbers.quota(), numbers.burst);
        let (precision, interval) = (numbers.precision(), numbers.interval());
        let gate = || FixedWindow::new(numbers.other_quota()).named("gate");
        // How long until there is room again in a log that owes is not told of a charge.
        let is_log = |name: &str| name.contains("log") || name.contains("buckets");
        let mut without_debits = history.clone();
        (without_debits.steps).retain(|step| !matches!(step.op, Op::Debit(_)));
        // Of the models nothing matters but the spans.
        let spans = || [sliding_log(numbers.units, numbers.period)];
        for_every_algorithm!(quota, burst, precision, interval, |name, rule| {
            let limits = (gate(), rule.named("tried").shadow());
            let subject = Subject::over_redis(name, limits, spans());
            let history = if is_log(name) {
                &without_debits
            } else {
                &history
            };
            let story = Story {
                // In memory each member has a time of its own.
                steps_back: false,
                ..Story::of(history)
            };
            redis_decides_as_the_rule(&redis, from_ref(&subject), &story)?
        });
        Ok(())
    });
}

#[test]
fn what_a_log_owes_is_charged_to_it_whether_it_fits_or_not() {
    let redis = Redis::start();
    let (store, log) = (
        redis.store_with_prefix("t"),
        SlidingLog::new(Quota::per_day(5)),
    );
    let in_shadow = RateLimiter::new(log.clone().shadow(), store.clone());
    redis.wait(in_shadow.debit("bob", 9)).unwrap();
    let enforced = RateLimiter::new(log, store);
    assert_eq!(redis.wait(enforced.peek("bob")).unwrap().remaining(), 0);
}
