//! Tuples of up to eight and nine members, nested ones and many logs together, decide over Redis
//! as they do in memory.

use std::{slice::from_ref, time::Duration};

use tollgate::{
    Quota,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, Scripted, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
};
use tollgate_properties::{
    alike::Story, history::any_history, model::sliding_log, subject::Subject,
};
use tollgate_redis_tests::{Redis, redis_decides_as_the_rule};

fn quota(units: u64) -> Quota {
    Quota::new(units, Duration::from_micros(40 + units))
}

fn log(units: u64) -> SlidingLog {
    SlidingLog::new(quota(units))
}

fn buckets(units: u64) -> SlidingBuckets {
    SlidingBuckets::new(
        Quota::new(units, Duration::from_micros(40)),
        Duration::from_micros(5),
    )
}

/// The spans of these models are those of the histories.
fn tuple<A: Scripted>(name: &'static str, rule: A) -> Subject {
    Subject::over_redis(name, rule, [sliding_log(5, 45), sliding_log(6, 46)])
}

fn tuples() -> Vec<Subject> {
    let others = || {
        (
            FixedWindow::new(quota(6)),
            SlidingWindow::new(quota(7)),
            TokenBucket::new(quota(8)).burst(5),
            Gcra::new(quota(9)).burst(6),
            LeakyBucket::new(quota(6)).queue(),
            MinInterval::new(Duration::from_micros(2)),
        )
    };
    let (window, two, tokens, gcra, queue, gap) = others();
    let [a, b, c, d, e] = [5, 6, 7, 8, 9].map(log);
    let [x, y, z] = [5, 6, 7].map(buckets);
    let (four, left) = (z.clone().strict(), (tokens.clone(), a.clone()));
    let kinds = (
        window,
        two,
        tokens,
        gcra,
        queue,
        gap.clone(),
        a.clone(),
        y.clone(),
    );
    vec![
        tuple("four logs", (a.clone(), b.clone(), four, d.clone())),
        tuple("eight of eight kinds", kinds),
        tuple("nested on the left", (left, gap.clone())),
        tuple("nine", ((others(), a.clone()), (b.clone(), gap))),
        tuple("eight logs", (a, b, c, d, e, x, y, z)),
    ]
}

#[test]
fn every_decision_of_a_tuple_is_the_pure_rules() {
    let redis = Redis::start();
    redis.for_all(180, any_history, |history| {
        tuples().iter().try_for_each(|subject| {
            redis_decides_as_the_rule(&redis, from_ref(subject), &Story::of(&history))
        })
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}
