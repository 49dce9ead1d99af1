//! By the server's clock every key expires when it says no more than a fresh one, and none stays
//! for ever.

use std::{thread, time::Duration};

use tollgate_properties::{numbers::Numbers, shared::SharedLimiter, subject::Subject};
use tollgate_redis_tests::{Redis, every_algorithm};

const HOUR: u64 = 3_600_000_000;

/// So few units in so short a period that the test can wait for each.
const SOON: Numbers = Numbers::new((12, 600_000), 20, 50_000, 30_000).beside(9, 400_000);

/// Numbers of which nothing comes back while a test lasts.
const LATER: Numbers = Numbers::new((5, 10 * HOUR), 4, HOUR, 2 * HOUR).beside(7, 5 * HOUR);

fn limiter(redis: &Redis, subject: &Subject, prefix: &str) -> Box<dyn SharedLimiter> {
    let store = redis.store_with_prefix(prefix);
    subject.bucket.limiter_over(store, redis.new_key())
}

/// Each subject has a thread and a prefix of its own.
fn with_each(numbers: Numbers, test: impl Fn(&Redis, &Subject, &str) + Sync) {
    let redis = Redis::start();
    thread::scope(|scope| {
        for index in 0..every_algorithm(&numbers).len() {
            let (redis, test) = (&redis, &test);
            scope.spawn(move || {
                let subject = every_algorithm(&numbers).swap_remove(index);
                test(redis, &subject, &format!("t{index}-"));
            });
        }
    });
    assert_eq!(redis.wait(redis.server().keys_without_ttl("")), [""; 0]);
}

#[test]
fn a_charged_key_stays_until_it_is_fresh_and_little_longer() {
    with_each(SOON, |redis, subject, prefix| {
        let limiter = limiter(redis, subject, prefix);
        let mut latest = 0;
        for turn in 0..16_u64 {
            thread::sleep(Duration::from_millis(turn * 7 % 40));
            let before = redis.now();
            let decision = redis.wait(limiter.check(1)).unwrap();
            let (keys, after) = (redis.keys(prefix), redis.now());
            if !decision.is_admitted() {
                continue;
            }
            let reset = i64::try_from(decision.reset_after().as_micros()).unwrap();
            latest = latest.max(after + reset * 65 / 64 + 1_002_000);
            let name = subject.name;
            let lives =
                |until| assert!(until >= before + reset, "{name}: {until} {before} {reset}");
            if keys.is_empty() {
                lives(after);
            }
            for key in keys {
                let expires = redis.expires_at(&key) * 1_000;
                if expires < 0 {
                    // It has expired before it was looked at.
                    lives(redis.now());
                    continue;
                }
                lives(expires);
                // A window ends where it did at its first charge, and so does the expiry.
                assert!(expires <= latest, "{name}: {expires} {latest}");
            }
        }
        assert!(latest > 0 && redis.keys(prefix).len() <= 4);
        let left = u64::try_from(latest - redis.now()).unwrap_or(0);
        thread::sleep(Duration::from_micros(left));
        assert_eq!(redis.keys(prefix), [""; 0], "{}", subject.name);
    });
}

#[test]
fn a_request_that_is_not_charged_changes_neither_value_nor_expiry() {
    with_each(LATER, |redis, subject, prefix| {
        let limiter = limiter(redis, subject, prefix);
        let check = |cost| redis.wait(limiter.check(cost)).unwrap();
        redis.wait(limiter.peek()).unwrap();
        check(0);
        match check(u32::MAX).is_admitted() {
            true => assert!(!subject.counts_units()),
            false => assert_eq!(redis.keys(prefix), [""; 0]),
        }
        redis.wait(limiter.reset()).unwrap();
        while check(1).is_admitted() {}
        let before = redis.everything(prefix);
        assert!(!before.is_empty());
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(2));
            assert!(!check(1).is_admitted());
            check(u32::MAX);
            check(0);
            redis.wait(limiter.peek()).unwrap();
            assert_eq!(redis.everything(prefix), before, "{}", subject.name);
        }
        redis.wait(limiter.reset()).unwrap();
        assert_eq!(redis.keys(prefix), [""; 0], "{}", subject.name);
    });
}

#[test]
fn a_key_that_owes_stays_until_the_debt_is_paid() {
    with_each(LATER, |redis, subject, prefix| {
        let (name, limiter) = (&subject.name, limiter(redis, subject, prefix));
        for units in [1, 100, u32::MAX, u32::MAX] {
            redis.wait(limiter.debit(units)).unwrap();
            let wait = redis
                .wait(limiter.peek())
                .unwrap()
                .reset_after()
                .as_millis();
            let keys = redis.keys(prefix);
            let lives = keys.iter().map(|key| redis.expires_at(key)).min().unwrap();
            let now = std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .unwrap()
                .as_millis();
            let lives = u128::try_from(lives).unwrap() - now;
            // No key lives longer than a number can say.
            let wait = wait.min((1 << 53) / 1_000 - now);
            assert!(lives + 5 >= wait, "{}: {lives} ms of {wait}", subject.name);
            let longest = wait + wait / 64 + 1_005;
            let edges = subject.longest_span().unsigned_abs() / 1_000 * 65 / 64;
            assert!(lives <= longest + edges, "{name}: {lives} ms of {wait}");
        }
        // Four debits are four requests.
        let is_full = !subject.name.contains("per request");
        let checked = redis.wait(limiter.check(1)).unwrap();
        assert!(!is_full || !checked.is_admitted(), "{name}");
    });
}
