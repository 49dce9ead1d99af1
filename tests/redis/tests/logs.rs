//! A log in Redis has its entries in a list under a key of its own: long histories through all of
//! it.

use std::{slice::from_ref, time::Duration};

use proptest::prelude::*;
use tollgate::{
    Quota,
    algorithm::{SlidingBuckets, SlidingLog},
};
use tollgate_properties::{
    alike::Story,
    history::{Cost, History, Op, Step, Turn},
    model::{sliding_buckets, sliding_log},
    subject::Subject,
};
use tollgate_redis_tests::{Redis, redis_decides_as_the_rule};

/// How the time moves: an admission at almost every step, each at an instant of its own.
fn turn(gaps: u32) -> impl Strategy<Value = Turn> {
    prop_oneof![
        400 => (1..4_u8).prop_map(Turn::Ticks),
        40 => Just(Turn::Still),
        gaps => (0..140_u8).prop_map(Turn::Part),
        gaps => Just(Turn::Spans(1)),
        gaps => Just(Turn::ToTheEndOfTheWait),
        2 * gaps => (1..30_u8).prop_map(Turn::BackTicks),
        gaps => any::<u8>().prop_map(Turn::BackPart),
        gaps => (0..3_u8).prop_map(Turn::BackSpans),
    ]
}

fn op(refunds: u32) -> impl Strategy<Value = Op> {
    prop_oneof![
        200 => Just(Op::Check(Cost::Units(1))),
        20 => (0..9_u32).prop_map(|units| Op::Check(Cost::Units(units))),
        2 => (0..60_u8).prop_map(|part| Op::Check(Cost::Part(part))),
        2 => Just(Op::Check(Cost::Limit)),
        5 => Just(Op::Peek),
        refunds => (1..20_u32).prop_map(|units| Op::Refund(Cost::Units(units))),
        refunds => (0..100_u8).prop_map(|part| Op::Refund(Cost::Part(part))),
    ]
}

fn long_history(steps: std::ops::Range<usize>) -> impl Strategy<Value = History> {
    // Crowded, restless, and generous.
    let moods = prop::sample::select(&[(1, 1), (6, 1), (6, 30)][..]);
    let start = prop::sample::select(&[0_i128, 5_000, 1_700_000_000_000_000][..]);
    (moods, start).prop_flat_map(move |((gaps, refunds), start)| {
        let step = (turn(gaps), op(refunds)).prop_map(|(turn, op)| Step { turn, op });
        prop::collection::vec(step, steps.clone()).prop_map(move |steps| History { start, steps })
    })
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Logs of many units in spans that hold most, some or few of the steps.
fn logs(units: u64, period: u64) -> Vec<Subject> {
    let log = |units, period| SlidingLog::new(Quota::new(units, micros(period)));
    let (half, third) = (units / 2 + 1, period / 3 + 1);
    let models = [sliding_log(units, period), sliding_log(half, third)];
    let two = (log(units, period), log(half, third));
    let buckets = SlidingBuckets::new(Quota::new(units, micros(1_024 * 4)), micros(4));
    let cut = sliding_buckets(units, 1_024 * 4, 4);
    vec![
        Subject::over_redis("log", log(units, period), [sliding_log(units, period)]),
        Subject::over_redis("many sub-counters", buckets, [cut]),
        Subject::over_redis("two logs", two, models),
    ]
}

#[test]
fn thousands_of_admissions_at_instants_of_their_own_are_the_pure_rules() {
    let redis = Redis::start();
    let numbers = || {
        (
            prop_oneof![30..300_u64, 1_000..3_000_u64],
            prop_oneof![300..3_000_u64, 5_000..20_000_u64],
        )
    };
    let values = || (numbers(), long_history(300..2_000));
    redis.for_all(36, values, |((units, period), history)| {
        logs(units, period).iter().try_for_each(|subject| {
            redis_decides_as_the_rule(&redis, from_ref(subject), &Story::of(&history))
        })
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn entries_that_grow_with_the_units_are_the_pure_rules() {
    let redis = Redis::start();
    // Totals that fit 3 bytes and that do not, that fit 4 and that do not, and units for which 4
    // bytes are not enough.
    for (units, cost) in [
        (40_000_000, 1_500_000),
        (1 << 31, 150_000_000),
        (1 << 33, 300_000_000),
    ] {
        let steps = (0..200_u8).flat_map(|turn| {
            let turn = Turn::Ticks(10 + u8::from(turn % 7 == 0) * 3);
            let charged = Step {
                turn,
                op: Op::Check(Cost::Units(cost)),
            };
            let looked = Step {
                turn: Turn::Still,
                op: Op::Peek,
            };
            [charged, looked]
        });
        let history = History {
            start: 10_000,
            steps: steps.collect(),
        };
        let log = &logs(units - 1, 300)[..1];
        redis_decides_as_the_rule(&redis, log, &Story::of(&history)).unwrap();
    }
}
