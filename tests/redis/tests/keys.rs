//! Whatever a caller's key is, its bucket is its own, and has the prefix.

use std::time::Duration;

use bytes::Bytes;

use tollgate::{
    Quota, RateLimiter,
    algorithm::{FixedWindow, MinInterval, SlidingLog, TokenBucket},
    store::RedisStore,
};
use tollgate_redis_tests::Redis;

const LONG: Duration = Duration::from_secs(86_400);

#[test]
fn hostile_keys_have_buckets_of_their_own_under_the_prefix() {
    let redis = Redis::start();
    redis.ask::<()>("SET", &[b"another's", b"value"]);
    let long = "k".repeat(1 << 16);
    let longer = format!("{long}!");
    let odd = "\r\n|\0|e\u{301}|\u{202e}|\x1b[31m|tollgate:1{||a|A|{x}|{}|*| |a:b|é";
    let keys: Vec<_> = odd.split('|').chain([&*long, &longer]).collect();
    macro_rules! admits_each_once {
        ($keys:expr) => {
            let limiter = RateLimiter::new(MinInterval::new(LONG), redis.store_with_prefix("mine"));
            for is_admitted in [true, false] {
                for key in $keys {
                    let decision = redis.wait(limiter.check(key)).unwrap();
                    assert_eq!(decision.is_admitted(), is_admitted, "{key:.20?}");
                }
            }
        };
    }
    admits_each_once!(keys.iter().copied());
    admits_each_once!([&[0xFF_u8][..], &[0xFF, 0xFE], &[0], &[]]);
    let pairs = ["a:b|c", "a|b:c", "a;b|c", "|", "|a", "a|"].map(|pair| {
        let (left, right) = pair.split_once('|').unwrap();
        (left.to_owned(), right.to_owned())
    });
    admits_each_once!(&pairs);
    let found = redis.keys("");
    let (mine, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|key| key.starts_with(b"mine:1{"));
    assert_eq!(others, ["another's"]);
    assert_eq!(mine.len(), keys.len() + 4 + 6);
    let is_plain = |key: &&Bytes| key.len() < 200 && !key.contains(&b'\n') && !key.contains(&0);
    assert!(mine.iter().all(is_plain), "{mine:?}");
    assert_eq!(redis.wait(redis.server().keys_without_ttl("mine")), [""; 0]);
}

#[test]
fn one_key_under_two_policies_algorithms_or_prefixes_is_several_buckets() {
    let redis = Redis::start();
    let store = redis.store_with_prefix("one");
    let quota = Quota::new(1, LONG);
    macro_rules! admits_once {
        ($rule:expr, $store:expr) => {{
            let limiter = RateLimiter::new($rule, $store.clone());
            assert!(redis.wait(limiter.check("bob")).unwrap().is_admitted());
            assert!(!redis.wait(limiter.check("bob")).unwrap().is_admitted());
        }};
    }
    admits_once!(FixedWindow::new(quota), store);
    admits_once!(FixedWindow::new(quota).named("a"), store);
    admits_once!(FixedWindow::new(quota).named("b"), store);
    // A name is one bucket only for one kind of state.
    let log = || SlidingLog::new(quota).named("a");
    let bucket = || TokenBucket::new(quota).named("a");
    admits_once!(log(), store);
    admits_once!(bucket(), store);
    admits_once!((log(), bucket()), store);
    admits_once!((bucket(), log()), store);
    admits_once!(FixedWindow::new(quota), redis.store_with_prefix("two"));
    // What another version kept is not read.
    for key in redis.keys("one:1{") {
        let other = String::from_utf8_lossy(&key).replace(":1{", ":2{");
        redis.ask::<()>("RENAME", &[&key, other.as_bytes()]);
    }
    admits_once!(FixedWindow::new(quota), store);
}

#[test]
fn a_prefix_and_a_hash_tag_are_short_and_plain() {
    let redis = Redis::start();
    let builder = || RedisStore::builder(redis.client().clone());
    let long = "x".repeat(65);
    for prefix in ["", "{", "a}b", "a\"", "é", "a b", "a*", "\n", &long] {
        let error = builder().prefix(prefix).try_build().unwrap_err();
        let names_it = error.to_string().contains(&format!("{prefix:?}"));
        assert!(names_it, "{error}");
        let tagged = builder().hash_tag(prefix).try_build();
        assert!(tagged.is_err(), "{prefix:?}");
    }
    for prefix in ["a", "my-app.limits:1_a", &long[..64]] {
        let built = builder().prefix(prefix).hash_tag(prefix).try_build();
        assert!(built.is_ok(), "{prefix:?}");
    }
}

#[test]
fn a_deadline_and_a_bound_that_nothing_can_keep_are_refused_with_their_value() {
    let redis = Redis::start();
    let builder = || RedisStore::builder(redis.client().clone());
    let error = builder().deadline(Duration::ZERO).try_build().unwrap_err();
    assert_eq!(error.to_string(), "the deadline 0ns is shorter than 1ms");
    let error = builder().max_unanswered(0).try_build().unwrap_err();
    let told = "max_unanswered is 0: no decision could be sent";
    assert_eq!(error.to_string(), told);
    let least = builder().deadline(Duration::from_millis(1));
    assert!(least.max_unanswered(1).try_build().is_ok());
}

/// With the first write and with the next, which changes it in its place.
#[test]
fn the_key_of_a_bucket_is_small() {
    let redis = Redis::start();
    let bucket = TokenBucket::new(Quota::per_second(1)).burst(100);
    let limiter = RateLimiter::new(bucket, redis.store_with_prefix("tollgate"));
    let client = std::net::IpAddr::from([203, 0, 113, 195]);
    for _ in 0..3 {
        assert!(redis.wait(limiter.check(&client)).unwrap().is_admitted());
        let key = redis.keys("tollgate").pop().unwrap();
        let bytes: i64 = redis.ask("MEMORY", &[b"USAGE", &key]);
        assert!(bytes <= 190, "{bytes} bytes: {key:?}");
    }
}
