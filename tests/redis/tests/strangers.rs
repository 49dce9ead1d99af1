//! A value that no script wrote is never read as a state: the request fails, and is not let
//! through.

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tollgate::{
    StoreError, StoreErrorKind,
    algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket},
    clock::ManualClock,
};
use tollgate_properties::{
    call::{Admission, Call, Ending},
    numbers::Numbers,
    shared::SharedLimiter,
    subject::{Subject, instant},
};
use tollgate_redis_tests::{Redis, every_algorithm, patient};

const NUMBERS: Numbers = Numbers::new((50, 10_000), 40, 100, 1).beside(60, 20_000);

const START: i128 = 1_700_000_000_000_000;

fn is_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, what: &str) {
    let error = answer.expect_err(what);
    let is_invalid = error.kind() == StoreErrorKind::InvalidInput;
    assert!(is_invalid, "{what}: {error:?}");
}

/// Every call about it fails.
fn nothing_is_read(redis: &Redis, limiter: &dyn SharedLimiter, what: &str) {
    is_refused(redis.wait(limiter.check(1)), what);
    is_refused(redis.wait(limiter.check(0)), what);
    is_refused(redis.wait(limiter.peek()), what);
    is_refused(redis.wait(limiter.debit(1)), what);
}

/// The numbers of another plan under the same name, of one shape with the first.
const OTHERS: Numbers = Numbers::new((70, 10_000), 30, 100, 2).beside(80, 20_000);

/// Every algorithm, and some whose units are held.
fn every_limit(numbers: &Numbers) -> Vec<Subject> {
    let (quota, held_at_most) = (numbers.quota(), Duration::from_millis(1));
    let mut all = every_algorithm(numbers);
    macro_rules! held {
        ($($algorithm:ident),+) => {
            all.extend([$({
                let settled = $algorithm::new(quota).named("held").settled();
                let name = stringify!($algorithm);
                Subject::over_redis(name, settled.held_at_most(held_at_most), [])
            }),+])
        };
    }
    held!(TokenBucket, FixedWindow, SlidingWindow, SlidingLog);
    all
}

/// Calls with each of these limits: a limiter with several admissions, one with other numbers under
/// the same name, the keys of the bucket, the state's first, and the admissions of the first
/// limiter. If both were admitted in turn, they share the state.
fn with_each(
    limits: fn(&Numbers) -> Vec<Subject>,
    in_turn: bool,
    mut test: impl FnMut(&Redis, &ManualClock, [&dyn SharedLimiter; 2], (&[Bytes], &[Admission]), &str),
) {
    let redis = Redis::start();
    for (index, subject) in limits(&NUMBERS).iter().enumerate() {
        let clock = ManualClock::at(instant(START));
        let prefix = format!("t{index}-");
        let store = patient(redis.client().clone()).clock(clock.clone());
        let store = store.prefix(&prefix).build();
        let key = redis.new_key();
        let others = limits(&OTHERS).swap_remove(index);
        let limiter = subject.bucket.limiter_over(store.clone(), key.clone());
        let other = others.bucket.limiter_over(store, key);
        let mut admitted = Vec::new();
        for turn in 0..12 {
            clock.set(instant(START + 200 * turn));
            admitted.extend(redis.wait(limiter.ask(Call::Check(1))).unwrap());
            if in_turn {
                clock.set(instant(START + 200 * turn + 100));
                redis.wait(other.check(1)).unwrap();
            }
        }
        let keys = redis.keys(&prefix);
        let limiters = [&*limiter, &*other];
        admitted.retain(|admission| admission.decision.is_admitted());
        test(&redis, &clock, limiters, (&keys, &admitted), subject.name);
        redis.wait(limiter.reset()).unwrap();
        assert!(redis.wait(limiter.check(1)).unwrap().is_admitted());
    }
}

/// Puts what is no text under a key.
fn put(redis: &Redis, key: &Bytes, (command, args): (&'static str, &[&[u8]])) {
    redis.ask::<()>("DEL", &[key]);
    redis.ask::<fred::types::Value>(command, &[&[&key[..]], args].concat());
}

#[test]
fn a_value_of_another_type_or_length_garbage_and_a_number_that_no_script_wrote_fail() {
    let mut random = Rng::with_seed(1);
    let noise: Vec<Vec<u8>> = (0..100)
        .map(|_| (0..500).map(|_| random.u8(..)).collect())
        .collect();
    let mut tried = false;
    with_each(
        every_algorithm,
        false,
        |redis, _, limiters, (keys, _), name| {
            let (key, state): (_, Bytes) = (&keys[0], redis.ask("GET", &[&keys[0]]));
            for other in [
                ("HSET", &[&b"field"[..], b"value"][..]),
                ("RPUSH", &[b"a"]),
                ("SADD", &[b"a"]),
                ("ZADD", &[b"1", b"a"]),
                ("XADD", &[b"*", b"field", b"value"]),
            ] {
                put(redis, key, other);
                nothing_is_read(redis, limiters[0], &format!("{name}: {}", other.0));
            }
            let longer = [&state[..], b"\0"].concat();
            let lengths = (0..state.len()).chain([longer.len()]);
            let mut strange: Vec<_> = lengths.map(|length| longer[..length].to_vec()).collect();
            strange.push(vec![b'x'; 1 << 20]);
            let bytes = [0x2A, 0x40, 0x7F, 0x80, 0xBF, 0xFF];
            strange.extend(bytes.map(|byte| vec![byte; state.len()]));
            strange.extend(noise.iter().map(|noise| noise[..state.len()].to_vec()));
            for value in strange {
                redis.ask::<()>("SET", &[key, &value, b"PX", b"60000"]);
                nothing_is_read(redis, limiters[0], &format!("{name}: {value:.40?}"));
            }
            for at in numbers_of(&state) {
                for number in [1_u64 << 53, 1 << 54, (1 << 56) - 1] {
                    let mut changed = state.to_vec();
                    changed[at..at + 7].copy_from_slice(&number.to_le_bytes()[..7]);
                    redis.ask::<()>("SET", &[key, &changed, b"PX", b"60000"]);
                    for limiter in limiters {
                        nothing_is_read(redis, limiter, &format!("{name}: {number} at {at}"));
                    }
                }
            }
            if name == "token bucket" {
                // The rate stands last, behind the debt: nothing is owed at no rate.
                let mut changed = state.to_vec();
                assert!(state[22..29].iter().any(|&byte| byte > 0));
                changed[29..36].fill(0);
                redis.ask::<()>("SET", &[key, &changed, b"PX", b"60000"]);
                nothing_is_read(redis, limiters[0], name);
                tried = true;
            }
        },
    );
    assert!(tried);
}

/// Where the numbers of a state stand, behind its first byte.
fn numbers_of(state: &[u8]) -> Vec<usize> {
    (1..state.len()).step_by(7).collect()
}

/// Changes the entries of a log: a byte is changed, an entry replaced by another one, added or
/// removed.
fn mutate(entries: &mut Vec<Vec<u8>>, next: &mut dyn FnMut(usize) -> usize) {
    if entries.is_empty() {
        return;
    }
    let (at, other) = (next(entries.len()), next(entries.len()));
    match next(5) {
        0 => entries.swap(at, other),
        1 => entries[at] = entries[other].clone(),
        2 => drop(entries.remove(at)),
        3 => entries.insert(at, entries[other].clone()),
        _ => {
            let byte = next(entries[at].len());
            entries[at][byte] = [0, 1, 0x7F, 0xFF, next(256) as u8][next(5)];
        }
    }
}

/// Numbers that scripts do write, but not together: each answer is an error about that key, or
/// makes sense.
#[test]
fn a_state_whose_numbers_dont_fit_together_is_an_error_or_decided_within_bounds() {
    let mut random = Rng::with_seed(7);
    let mut next = move |limit: usize| random.usize(..limit);
    let (mut refused, mut read) = (0, 0);
    for in_turn in [false, true] {
        with_each(
            every_limit,
            in_turn,
            |redis, clock, limiters, (keys, admitted), name| {
                let state: Bytes = redis.ask("GET", &[&keys[0]]);
                let list: Vec<Vec<Bytes>> = (keys[1..].iter())
                    .map(|key| redis.ask("LRANGE", &[key, b"0", b"-1"]))
                    .collect();
                let number = |at: usize| {
                    let mut bytes = [0; 8];
                    bytes[..7].copy_from_slice(&state[at..at + 7]);
                    u64::from_le_bytes(bytes)
                };
                for turn in 0..120 {
                    clock.set(instant(START + 2_400 + 37 * (turn % 400)));
                    let mut changed = state.to_vec();
                    let numbers = numbers_of(&state);
                    for _ in 0..=next(3) {
                        let at = numbers[1 + next(numbers.len() - 1)];
                        let other = numbers[next(numbers.len())];
                        let value = match next(9) {
                            0 => 0,
                            1 => 1,
                            2 => number(at) + 1,
                            3 => number(at).saturating_sub(1),
                            4 => number(other),
                            5 => START as u64 + next(40_000) as u64,
                            6 => next(1_000) as u64,
                            7 => 1 << (30 + next(24)),
                            _ => number(at) * 2,
                        };
                        changed[at..at + 7].copy_from_slice(&value.to_le_bytes()[..7]);
                    }
                    redis.ask::<()>("SET", &[&keys[0], &changed, b"PX", b"60000"]);
                    for (key, entries) in keys[1..].iter().zip(&list) {
                        redis.ask::<()>("DEL", &[key]);
                        let mut entries: Vec<Vec<u8>> =
                            entries.iter().map(|entry| entry.to_vec()).collect();
                        // One turn in three leaves them as they are.
                        for _ in 0..next(3) {
                            mutate(&mut entries, &mut next);
                        }
                        let words: Vec<&[u8]> = std::iter::once(&key[..])
                            .chain(entries.iter().map(|entry| &entry[..]))
                            .collect();
                        if words.len() > 1 {
                            redis.ask::<()>("RPUSH", &words);
                            redis.ask::<()>("PEXPIRE", &[key, b"60000"]);
                        }
                    }
                    let which = next(2);
                    let limiter = limiters[which];
                    let both = |changed: Result<(), StoreError>| {
                        changed.and_then(|()| redis.wait(limiter.peek()))
                    };
                    let answer = match next(6) {
                        5 => {
                            let ended = &admitted[next(admitted.len())];
                            let ending = Ending::Settled(next(9) as u8);
                            both(redis.wait(limiter.ask(Call::End(ended, ending))).map(drop))
                        }
                        4 => both(redis.wait(limiter.debit(next(99) as u32))),
                        0 => redis.wait(limiter.peek()),
                        1 => redis.wait(limiter.check(u32::MAX)),
                        2 => both(redis.wait(limiter.refund(1))),
                        _ => redis.wait(limiter.check(1)),
                    };
                    match answer {
                        Ok(ref decision) => {
                            // How long is waited depends on plans that may have been.
                            assert!(decision.remaining() <= decision.limit(), "{name}");
                            read += 1;
                        }
                        Err(_) => {
                            is_refused(answer, name);
                            refused += 1;
                        }
                    }
                }
                redis.ask::<()>("SET", &[&keys[0], &state, b"PX", b"60000"]);
            },
        );
    }
    let are_both_seen = refused > 200 && read > 200;
    assert!(are_both_seen, "{refused} refused, {read} read");
}

/// A log of twelve admissions 200 µs apart in a span of 10 ms, of which the first three are over
/// now.
fn log_to_be_read() -> (Redis, Box<dyn SharedLimiter>, Bytes, Bytes) {
    let redis = Redis::start();
    let clock = ManualClock::at(instant(START));
    let store = redis.store(clock.clone());
    let subject = every_algorithm(&NUMBERS).swap_remove(2);
    let limiter = subject.bucket.limiter_over(store, redis.new_key());
    for turn in 0..12 {
        clock.set(instant(START + 200 * turn));
        redis.wait(limiter.check(1)).unwrap();
    }
    clock.set(instant(START + 10_000 + 500));
    let mut keys = redis.keys("");
    assert_eq!(keys.len(), 2, "a state and a list");
    let list = keys.pop().unwrap();
    (redis, limiter, keys.pop().unwrap(), list)
}

#[test]
fn a_log_whose_list_is_a_strangers_fails() {
    let (redis, limiter, _, list) = log_to_be_read();
    assert_eq!(redis.wait(limiter.peek()).unwrap().remaining(), 41);
    let entries: Vec<Bytes> = redis.ask("LRANGE", &[&list, b"0", b"-1"]);
    let length = entries[0].len();
    for (byte, length) in [
        (0, 0),
        (b'x', 1),
        (0, length - 1),
        (0, length),
        (0x7F, length),
        (0xFF, length),
        (0, length + 1),
        (0, 1_000),
    ] {
        let garbage = vec![byte; length];
        redis.ask::<()>("DEL", &[&list]);
        for _ in &entries {
            redis.ask::<()>("RPUSH", &[&list, &garbage]);
        }
        redis.ask::<()>("PEXPIRE", &[&list, b"60000"]);
        nothing_is_read(&redis, &*limiter, &format!("{garbage:?}"));
    }
    for other in [
        ("SET", &[&b"value"[..]][..]),
        ("HSET", &[b"field", b"value"]),
    ] {
        put(&redis, &list, other);
        nothing_is_read(&redis, &*limiter, other.0);
    }
}

#[test]
fn a_log_whose_list_was_evicted_admits_no_more_and_leaves_no_key_for_ever() {
    let (redis, limiter, _, list) = log_to_be_read();
    let honest = redis.wait(limiter.peek()).unwrap().remaining();
    redis.ask::<()>("DEL", &[&list]);
    assert!(redis.wait(limiter.peek()).unwrap().remaining() <= honest);
    assert!(redis.wait(limiter.check(1)).unwrap().remaining() < honest);
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn a_log_whose_state_alone_was_evicted_is_fresh_and_what_is_left_of_its_list_is_not_read() {
    let (redis, limiter, state, list) = log_to_be_read();
    assert_eq!(redis.wait(limiter.peek()).unwrap().remaining(), 41);
    redis.ask::<()>("DEL", &[&state]);
    for _ in 0..3 {
        let peeked = redis.wait(limiter.peek()).unwrap();
        assert_eq!(peeked.remaining(), 50, "{peeked:?}");
    }
    // As of a key that was never seen.
    let mut rule = every_algorithm(&NUMBERS).swap_remove(2).bucket;
    rule.forget(0);
    for _ in 0..50 {
        let decision = redis.wait(limiter.check(1)).unwrap();
        assert_eq!(decision, rule.check(1, START + 10_000 + 500));
    }
    assert!(!redis.wait(limiter.check(1)).unwrap().is_admitted());
    assert_eq!(redis.ask::<i64>("LLEN", &[&list]), 0);
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}
