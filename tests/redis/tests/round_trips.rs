//! Each decision sends one command, and nothing else.

use std::time::Duration;

use fred::types::RespVersion;
use tollgate::{Decision, clock::ManualClock, store::RedisStore};
use tollgate_properties::{numbers::Numbers, subject::instant};
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

/// One recorded trace, as this protocol tells it.
fn trace(redis: &Redis, version: RespVersion, prefix: &str) -> Vec<Decision> {
    let config = fred::types::config::Config {
        version,
        ..redis.server().config()
    };
    let client = redis.wait(connect(config));
    let clock = ManualClock::at(instant(1_700_000_000_000_000));
    let store = RedisStore::builder(client)
        .clock(clock.clone())
        .prefix(prefix);
    let store = store.deadline(Duration::from_secs(20)).build();
    let mut told = Vec::new();
    for subject in every_algorithm(&NUMBERS) {
        let limiter = subject.bucket.limiter_over(store.clone(), "bob".to_owned());
        let mut now = 1_700_000_000_000_000;
        for turn in 0..60_u32 {
            now +=
                i128::from(turn * 7_919 % 5_000) * 1_000 - i128::from(turn % 9 / 8) * 200_000_000;
            clock.set(instant(now));
            told.push(redis.wait(limiter.check(turn * 31 % 5)).unwrap());
            told.push(redis.wait(limiter.peek()).unwrap());
            if turn % 5 == 4 {
                redis.wait(limiter.refund(turn % 3)).unwrap();
            }
        }
    }
    told
}

#[test]
fn both_protocols_tell_the_same_decisions() {
    let redis = Redis::start();
    let two = trace(&redis, RespVersion::RESP2, "two");
    assert_eq!(two.len(), every_algorithm(&NUMBERS).len() * 120);
    assert_eq!(two, trace(&redis, RespVersion::RESP3, "three"));
}
