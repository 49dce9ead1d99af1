//! What lies in Redis under the key of a limit: any value is an error of that key, or a state that
//! admits no more than the limit.
//!
//! The first byte is the limit; the next one says how many bytes the value has, and if the limit
//! keeps a list, each byte after the value how many the next entry has.

#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tollgate::{Decision, StoreError, StoreErrorKind, Timestamp, clock::ManualClock};
use tollgate_fuzz::every_limit;
use tollgate_properties::{
    call::{Call, Ending},
    shared::SharedLimiter,
};
use tollgate_redis_tests::{Redis, patient};

const START: u64 = 1_700_000_000_000_000;
/// No limit of units admits so much at once.
const TOO_MUCH: u32 = 1_000;
/// More than half of what any limit of units admits at once.
const MOST: u32 = 31;

struct Limited {
    limiter: Box<dyn SharedLimiter>,
    /// Whether a request counts as one, whatever it costs.
    counts_requests: bool,
    /// That of the state, then those of its lists.
    keys: Vec<Bytes>,
}

static REDIS: LazyLock<(Redis, Vec<Limited>)> = LazyLock::new(|| {
    let redis = Redis::start();
    let all = every_limit().into_iter().enumerate();
    let limited = all.map(|(number, subject)| {
        let prefix = format!("t{number}-");
        let clock = ManualClock::at(Timestamp::from_micros(START));
        let store = patient(redis.client().clone()).clock(clock).prefix(&prefix);
        let limiter = subject.bucket.limiter_over(store.build(), "key".to_owned());
        let is_admitted = |cost| {
            redis
                .wait(limiter.check(cost))
                .expect("a decision")
                .is_admitted()
        };
        let counts_requests = is_admitted(TOO_MUCH);
        // What keeps a list has one from the second request on.
        for _ in 0..2 {
            is_admitted(1);
        }
        Limited {
            limiter,
            counts_requests,
            keys: redis.keys(&prefix),
        }
    });
    let limited = limited.collect();
    (redis, limited)
});

/// So many bytes as the first one says, and the rest.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, data) = data.split_first()?;
    Some(data.split_at(data.len().min(length.into())))
}

/// A decision that makes sense, or an error of this key.
fn decided(answer: Result<Decision, StoreError>) -> Option<Decision> {
    match answer {
        Ok(decision) => {
            assert!(decision.remaining() <= decision.limit(), "{decision:?}");
            Some(decision)
        }
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::InvalidInput, "{error:?}");
            None
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (redis, all) = &*REDIS;
    let Some((&which, data)) = data.split_first() else {
        return;
    };
    let Limited {
        limiter,
        counts_requests,
        keys,
    } = &all[usize::from(which) % all.len()];
    let Some((value, mut entries)) = split(data) else {
        return;
    };
    redis.ask::<()>("SET", &[&keys[0], value, b"PX", b"60000"]);
    for list in &keys[1..] {
        redis.ask::<()>("DEL", &[list]);
        while let Some((entry, rest)) = split(entries) {
            redis.ask::<()>("RPUSH", &[&list[..], entry]);
            entries = rest;
        }
    }
    decided(redis.wait(limiter.peek()));
    let check = |cost| {
        let answer = redis.wait(limiter.ask(Call::Check(cost)));
        let admission = answer.map(|it| it.expect("it was asked for a decision"));
        let decision = admission.as_ref().map(|it| it.decision.clone());
        decided(decision.map_err(StoreError::clone)).and(admission.ok())
    };
    let admitted: Vec<_> = [TOO_MUCH, MOST, MOST]
        .into_iter()
        .filter_map(check)
        .collect();
    let mut costs = admitted
        .iter()
        .filter(|it| it.decision.is_admitted())
        .map(|it| it.cost);
    let (first, second) = (costs.next(), costs.next());
    // A value of 8 bytes that begins like this lets everything through: a program of ours writes it.
    let is_limited = !counts_requests && !(value.len() == 8 && value[0] == 6);
    assert!(!is_limited || first != Some(TOO_MUCH) && second.is_none());
    for admission in &admitted {
        // No request is in flight any more. Where the value is none, there is nothing to end.
        let _ = redis.wait(limiter.ask(Call::End(admission, Ending::Over)));
    }
    for change in [redis.wait(limiter.refund(1)), redis.wait(limiter.debit(1))] {
        decided(change.and_then(|()| redis.wait(limiter.peek())));
    }
    redis
        .wait(limiter.reset())
        .expect("to forget a value does not read it");
    let admission = check(1).expect("a fresh state");
    assert!(admission.decision.is_admitted());
    let _ = redis.wait(limiter.ask(Call::End(&admission, Ending::Over)));
});
