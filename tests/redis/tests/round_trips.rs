//! Each decision sends one command, and nothing else.

use std::{slice::from_ref, time::Duration};

use fred::types::RespVersion;
use tollgate::{clock::ManualClock, store::RedisStore};
use tollgate_properties::{
    alike::{Story, decides_as_the_rule},
    history::any_history_with_debits,
    numbers::Numbers,
    subject::instant,
};
use tollgate_redis_tests::{Redis, connect, every_algorithm};

const SECOND: u64 = 1_000_000;

const NUMBERS: Numbers = Numbers {
    units: 7,
    period: 60 * SECOND,
    burst: 9,
    precision: SECOND,
    interval: 2 * SECOND,
    other_units: 11,
    other_period: 90 * SECOND,
};

/// What a script may call.
const INNER: [&str; 10] = [
    "get",
    "lindex",
    "ltrim",
    "pexpire",
    "pexpireat",
    "rpush",
    "rpushx",
    "set",
    "time",
    "lrange",
];

#[test]
fn a_decision_is_one_command_and_nothing_else() {
    let redis = Redis::start();
    for subject in every_algorithm(&NUMBERS) {
        let store = redis.store_with_prefix("t");
        let limiter = subject.bucket.limiter_over(store, redis.new_key());
        // The first ones load the scripts.
        redis.wait(limiter.check(1)).unwrap();
        redis.wait(limiter.peek()).unwrap();
        redis.wait(limiter.refund(1)).unwrap();
        redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
        for cost in [0, 1, 1, 2, 0, 100, 1, u32::MAX] {
            redis.wait(limiter.check(cost)).unwrap();
            redis.wait(limiter.peek()).unwrap();
            redis.wait(limiter.refund(1)).unwrap();
        }
        let calls = redis.calls();
        let of = |name: &str| {
            calls
                .iter()
                .find(|call| call.0 == name)
                .map_or(0, |call| call.1)
        };
        // A queue gives nothing back, so a refund to it is not sent.
        let (calls_of_scripts, reads) = (of("evalsha"), of("get"));
        assert_eq!(calls_of_scripts, reads, "{}: {calls:?}", subject.name);
        assert!([16, 24].contains(&reads), "{}: {calls:?}", subject.name);
        let others: Vec<_> = calls
            .iter()
            .filter(|call| !INNER.contains(&&*call.0))
            .collect();
        let allowed = |name: &str| ["evalsha", "config|resetstat"].contains(&name);
        let others_are_allowed = others.iter().all(|call| allowed(&call.0));
        assert!(others_are_allowed, "{}: {calls:?}", subject.name);
        redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
        redis.wait(limiter.reset()).unwrap();
        let calls = redis.calls();
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(calls.contains(&("del".to_owned(), 1)), "{calls:?}");
    }
}

/// The other protocol is that of all other tests.
#[test]
fn over_resp3_every_decision_is_the_pure_rules() {
    let redis = Redis::start();
    let config = fred::types::config::Config {
        version: RespVersion::RESP3,
        ..redis.server().config()
    };
    let client = redis.wait(connect(config));
    redis.for_all(24, any_history_with_debits, |history| {
        let clock = ManualClock::at(instant(history.start));
        let store = RedisStore::builder(client.clone()).clock(clock.clone());
        let store = store.deadline(Duration::from_secs(20)).build();
        every_algorithm(&NUMBERS).iter().try_for_each(|subject| {
            let limiter = subject.bucket.limiter_over(store.clone(), redis.new_key());
            let story = Story::of(&history);
            decides_as_the_rule(from_ref(subject), &story, &mut |_, call, now, _| {
                clock.set(instant(now));
                Ok(redis.wait(limiter.ask(call)).expect("an answer"))
            })
        })
    });
}
