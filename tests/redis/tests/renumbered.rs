//! A named policy whose numbers change decides over Redis as the rule does.

use proptest::prelude::*;
use tollgate_properties::{
    alike::Story,
    history::any_history_with_debits,
    numbers::{Numbers, numbers, of_one_shape, small},
};
use tollgate_redis_tests::{Redis, every_algorithm, redis_decides_as_the_rule};

const HISTORIES: u32 = 480;

/// Two to four plans, most of them of one shape.
fn plans() -> impl Strategy<Value = Vec<Numbers>> {
    let alike = |mut plans: Vec<Numbers>| {
        // At a larger rate what is paid off in a wait of a minute cannot be counted.
        (plans.iter_mut()).for_each(|plan| plan.units = plan.units.min(100_000_000));
        of_one_shape(plans)
    };
    prop_oneof![
        3 => prop::collection::vec(small(), 2..=4).prop_map(alike),
        2 => prop::collection::vec(small(), 2..=4),
        2 => prop::collection::vec(numbers(), 2..=3),
        1 => prop::collection::vec(numbers(), 2..=3).prop_map(alike),
    ]
}

#[test]
fn plans_in_turn_are_the_pure_rules() {
    let redis = Redis::start();
    let turns = || prop::collection::vec(any::<u8>(), 80);
    let values = || (plans(), any_history_with_debits(), turns());
    redis.for_all(HISTORIES, values, |(plans, history, turns)| {
        let story = Story {
            turns: &turns,
            // Each state has a time of its own, in memory that of a `MinInterval` has none.
            steps_back: false,
            ..Story::of(&history)
        };
        for which in 0..every_algorithm(&plans[0]).len() {
            let of_plan = |plan| every_algorithm(plan).swap_remove(which);
            let all: Vec<_> = plans.iter().map(of_plan).collect();
            // Of another shape it would be another state.
            if all.iter().all(|plan| plan.shape() == all[0].shape()) {
                redis_decides_as_the_rule(&redis, &all, &story)?;
            }
        }
        Ok(())
    });
}
