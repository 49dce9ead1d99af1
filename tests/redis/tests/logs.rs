//! A log in Redis is cut into blocks, most of them in a ring under a key of its own: long histories
//! through all of it.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Quota,
    algorithm::{SlidingBuckets, SlidingLog},
    clock::ManualClock,
};
use tollgate_properties::{
    history::{Cost, History, LAST, Op, Step, Turn},
    model::{sliding_buckets, sliding_log},
    subject::{Limiter, Subject, instant},
};
use tollgate_redis_tests::{Redis, Twin, the_decisions_are_the_rules};

/// How the time moves, and what is asked: an admission at almost every step, each at an instant of
/// its own.
#[derive(Debug, Clone, Copy)]
enum Mood {
    Crowded,
    Restless,
    Generous,
}

fn turn(mood: Mood) -> BoxedStrategy<Turn> {
    let gaps = match mood {
        Mood::Crowded => 1,
        Mood::Restless | Mood::Generous => 6,
    };
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
    .boxed()
}

fn op(mood: Mood) -> BoxedStrategy<Op> {
    let refunds = match mood {
        Mood::Crowded | Mood::Restless => 1,
        Mood::Generous => 30,
    };
    prop_oneof![
        200 => Just(Op::Check(Cost::Units(1))),
        20 => (0..9_u32).prop_map(|units| Op::Check(Cost::Units(units))),
        2 => (0..60_u8).prop_map(|part| Op::Check(Cost::Part(part))),
        2 => Just(Op::Check(Cost::Limit)),
        5 => Just(Op::Peek),
        refunds => (1..20_u32).prop_map(|units| Op::Refund(Cost::Units(units))),
        refunds => (0..100_u8).prop_map(|part| Op::Refund(Cost::Part(part))),
    ]
    .boxed()
}

fn long_history(steps: std::ops::Range<usize>) -> impl Strategy<Value = History> {
    let moods = prop::sample::select(&[Mood::Crowded, Mood::Restless, Mood::Generous][..]);
    let start = prop::sample::select(&[0_i128, 5_000, 1_700_000_000_000_000][..]);
    (moods, start).prop_flat_map(move |(mood, start)| {
        let step = (turn(mood), op(mood)).prop_map(|(turn, op)| Step { turn, op });
        prop::collection::vec(step, steps.clone()).prop_map(move |steps| History { start, steps })
    })
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Logs of many units in spans that hold most, some or few of the steps.
fn logs(units: u64, period: u64) -> Vec<Subject> {
    let (quota, other) = (
        Quota::new(units, micros(period)),
        Quota::new(units / 2 + 1, micros(period / 3 + 1)),
    );
    let cut = Quota::new(units, micros(1_024 * 4));
    vec![
        Subject::new("log", SlidingLog::new(quota), [sliding_log(units, period)]),
        Subject::new(
            "many sub-counters",
            SlidingBuckets::new(cut, micros(4)),
            [sliding_buckets(units, 1_024 * 4, 4)],
        ),
        Subject::new(
            "two logs",
            (SlidingLog::new(quota), SlidingLog::new(other)),
            [
                sliding_log(units, period),
                sliding_log(units / 2 + 1, period / 3 + 1),
            ],
        ),
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
            let clock = ManualClock::at(instant(history.start));
            let limiter = redis.limiter(&*subject.bucket, clock.clone());
            the_decisions_are_the_rules(subject, &history, &*limiter, &clock)
        })
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn a_log_whose_quota_and_span_change_is_the_pure_rules() {
    let redis = Redis::start();
    let numbers = || (20..1_500_u64, 300..9_000_u64);
    let values = || (numbers(), numbers(), long_history(300..1_200));
    redis.for_all(36, values, |(old, new, history)| {
        let (olds, news) = (logs(old.0, old.1), logs(new.0, new.1));
        olds.iter().zip(&news).try_for_each(|(old, new)| {
            let clock = ManualClock::at(instant(history.start));
            let pooled = redis.pooled_store(clock.clone());
            let (store, key) = (pooled.store(), redis.new_key());
            let open = |subject: &Subject| {
                let limiter = subject
                    .bucket
                    .limiter_over(store.clone(), key.clone(), &*old.bucket);
                redis.blocking(limiter)
            };
            let (mut twin, limiters) = (Twin::of(&*old.bucket), [open(old), open(new)]);
            let (mut now, mut wait) = (history.start, 0);
            for (index, step) in history.steps.iter().enumerate() {
                let which = index / 100 % 2;
                let subject = [old, new][which];
                now = step.turn.of(now, wait, subject);
                clock.set(instant(now));
                twin.renumber(&*subject.bucket);
                let stepped = twin.steps_as(&*limiters[which], step.op, subject.limit(), now);
                wait = stepped
                    .map_err(|error| TestCaseError::fail(format!("step {index}: {error}")))?
                    .unwrap_or(wait);
            }
            Ok(())
        })
    });
}

#[test]
fn a_refusal_that_mends_a_log_tells_of_what_is_left_of_it() {
    let redis = Redis::start();
    let log = |units, period| {
        let rule = SlidingLog::new(Quota::new(units, micros(period)));
        Subject::new("log", rule, [sliding_log(units, period)])
    };
    let (old, new) = (log(100, 2_000), log(5, 1_000));
    let clock = ManualClock::at(instant(0));
    let (store, key) = (redis.store(clock.clone()), redis.new_key());
    let open = |subject: &Subject| {
        let bucket = &subject.bucket;
        redis.blocking(bucket.limiter_over(store.clone(), key.clone(), &*old.bucket))
    };
    let (mut twin, [olds, news]) = (Twin::of(&*old.bucket), [open(&old), open(&new)]);
    let one = Op::Check(Cost::Units(1));
    let mut step = |subject: &Subject, limiter: &dyn Limiter, now: i128| {
        let now = 10_000 + now;
        clock.set(instant(now));
        twin.renumber(&*subject.bucket);
        twin.steps_as(limiter, one, 100, now).expect("the same")
    };
    for turn in 0..60 {
        step(
            &old,
            &*olds,
            if turn < 40 {
                turn * 10
            } else {
                600 + turn * 10
            },
        );
    }
    step(&old, &*olds, 1_900);
    // The first forty are over. The others are more than the new quota, so the wait is for a later
    // one.
    let wait = step(&new, &*news, 100).expect("a wait");
    assert_eq!(wait, 1_160 + 1_000 - 1_900);
    step(&new, &*news, 101);
}

#[test]
fn a_clock_that_swings_from_end_to_end_is_the_pure_rules() {
    let redis = Redis::start();
    let subject = &logs(100, 1_000)[0];
    let mut twin = Twin::of(&*subject.bucket);
    let clock = ManualClock::at(instant(0));
    let limiter = redis.limiter(&*subject.bucket, clock.clone());
    // A step back by as much again still fits below the last instant.
    let last = tollgate_properties::history::LAST / 2;
    for round in 0..40 {
        for (end, step) in [(0, 1), (last, -1), (last / 2, 1), (last - 5_000, 1)] {
            for turn in 0..60 {
                let now = (end + step * (turn * 3 + round)).clamp(0, last);
                clock.set(instant(now));
                let op = Op::Check(Cost::Units(1));
                twin.steps_as(&*limiter, op, 100, now).unwrap();
            }
        }
    }
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
        let subject = &logs(units - 1, 300)[0];
        let mut twin = Twin::of(&*subject.bucket);
        let clock = ManualClock::at(instant(0));
        let limiter = redis.limiter(&*subject.bucket, clock.clone());
        for turn in 0..200 {
            let now = 10_000 + turn * 10 + i128::from(turn % 7 == 0) * 3;
            clock.set(instant(now));
            for op in [Op::Check(Cost::Units(cost)), Op::Peek] {
                twin.steps_as(&*limiter, op, units - 1, now).unwrap();
            }
        }
    }
}

/// All that a clock can show, back and forth: the entries are shifted by more than a number can
/// hold.
#[test]
fn steps_back_that_add_up_to_more_than_a_clock_can_show_are_the_pure_rule() {
    let redis = Redis::start();
    let days = 86_400 * 1_000_000;
    let quotas = [
        (5, 100),
        (5, 2_000 * days),
        (1 << 33, 100),
        (1 << 33, 2_000 * days),
    ];
    for (units, period) in quotas {
        let rule = SlidingLog::new(Quota::new(units, micros(period)));
        let subject = Subject::new("log", rule, [sliding_log(units, period)]);
        let clock = ManualClock::at(instant(0));
        let limiter = redis.limiter(&*subject.bucket, clock.clone());
        let mut twin = Twin::of(&*subject.bucket);
        let fifth = u32::try_from(units / 5).unwrap();
        let all_but_one = u32::try_from(units - 4 * u64::from(fifth)).unwrap();
        for turn in 0..9_i128 {
            let high = LAST - 40 + turn;
            let mut steps = vec![(high, fifth), (high + 3, fifth), (high + 5, fifth)];
            steps.extend([(4, fifth), (9, fifth), (17, all_but_one), (19, 1)]);
            steps.extend([(95, 1), (101, 1), (104, fifth), (109, fifth), (120, 1)]);
            for (now, cost) in steps {
                clock.set(instant(now));
                let op = Op::Check(Cost::Units(cost));
                let stepped = twin.steps_as(&*limiter, op, units, now);
                stepped.unwrap_or_else(|error| panic!("{units} in {period} at {now}: {error}"));
            }
        }
    }
}
