//! Each decision sends one command, and nothing else.

use std::slice::from_ref;

use fred::types::RespVersion;
use tollgate::clock::ManualClock;
use tollgate_properties::{
    alike::Story, history::any_history_with_debits, numbers::Numbers, subject::instant,
};
use tollgate_redis_tests::{Redis, connect, every_algorithm, patient, store_decides_as_the_rule};

const SECOND: u64 = 1_000_000;

const NUMBERS: Numbers =
    Numbers::new((7, 60 * SECOND), 9, SECOND, 2 * SECOND).beside(11, 90 * SECOND);

/// What a script may call.
const INNER: &str = "get lindex lrange ltrim pexpire pexpireat rpush rpushx set time";
/// What the test and its limiters may.
const OUTER: &str = "evalsha config";

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
        let of = |name: &str| calls.get(name).copied();
        // A queue gives nothing back, so a refund to it is not sent.
        let (scripts, reads) = (of("evalsha"), of("get"));
        let are_all = scripts == reads && [Some(16), Some(24)].contains(&reads);
        assert!(are_all, "{}: {calls:?}", subject.name);
        let allowed: Vec<_> = INNER.split(' ').chain(OUTER.split(' ')).collect();
        let others_are_allowed = calls.keys().all(|name| allowed.contains(&&**name));
        assert!(others_are_allowed, "{}: {calls:?}", subject.name);
        redis.ask::<()>("CONFIG", &[b"RESETSTAT"]);
        redis.wait(limiter.reset()).unwrap();
        let calls = redis.calls();
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert_eq!(calls.get("del"), Some(&1), "{calls:?}");
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
        let store = patient(client.clone()).clock(clock.clone()).build();
        every_algorithm(&NUMBERS).iter().try_for_each(|subject| {
            let (plan, story) = (from_ref(subject), Story::of(&history));
            store_decides_as_the_rule(&redis, &store, &clock, plan, &story)
        })
    });
}
