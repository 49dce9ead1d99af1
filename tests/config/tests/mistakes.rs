//! The message of a mistake names the field, the value, and what is allowed there.

use serde::de::DeserializeOwned;
use tollgate::{Quota, algorithm::*};

/// The message of this mistake, without its line.
fn told<R: DeserializeOwned>(json: &str) -> String {
    let error = serde_json::from_str::<R>(json).err();
    let error = error
        .unwrap_or_else(|| panic!("{json} was read"))
        .to_string();
    error.split(" at line ").next().unwrap().to_owned()
}

#[test]
fn another_algorithm_is_told_wherever_it_stands() {
    let expected = r#"`algorithm` is "sliding-buckets" where only "token-bucket" is allowed"#;
    for json in [
        r#"{"algorithm":"sliding-buckets","quota":"20/s","precision":"100ms"}"#,
        r#"{"quota":"20/s","precision":"100ms","algorithm":"sliding-buckets"}"#,
        r#"{"algorithm":"sliding-buckets"}"#,
    ] {
        assert_eq!(told::<TokenBucket>(json), expected);
    }
    assert_eq!(
        told::<LeakyBucketQueue>(r#"{"algorithm":"leaky-bucket","quota":"20/s"}"#),
        r#"`algorithm` is "leaky-bucket" where only "leaky-bucket-queue" is allowed"#
    );
    for algorithm in ["TokenBucket", "token_bucket", "Token-Bucket", ""] {
        let json = format!(r#"{{"algorithm":"{algorithm}","quota":"20/s"}}"#);
        assert!(told::<TokenBucket>(&json).contains(&format!("{algorithm:?}")));
    }
}

#[test]
fn a_field_that_an_algorithm_does_not_have_is_named_with_those_that_it_has() {
    let quota_and = |field: &str, value: &str| format!(r#"{{"{field}":{value},"quota":"20/s"}}"#);
    assert_eq!(
        told::<TokenBucket>(&quota_and("bursts", "40")),
        "`bursts` is not a field of a token-bucket, which has `algorithm`, `quota`, `burst`, `name`"
    );
    assert_eq!(
        told::<SlidingLog>(&quota_and("burst", "40")),
        "`burst` is not a field of a sliding-log, which has `algorithm`, `quota`, `name`"
    );
    assert_eq!(
        told::<MinInterval>(r#"{"interval":"1s","quota":"20/s"}"#),
        "`quota` is not a field of a min-interval, which has `algorithm`, `interval`, `name`"
    );
    assert_eq!(
        told::<FixedWindow>(&quota_and("from_first_request", "true")),
        "`from_first_request` is not a field of a fixed-window, which has `algorithm`, `quota`, \
         `from-first-request`, `name`"
    );
    let nested = quota_and("more", r#"{"a":[1,null]}"#);
    assert!(told::<Gcra>(&nested).starts_with("`more` is not a field of a gcra"));
    for foreign in [
        "capacity",
        "precision",
        "strict",
        "interval",
        "from-first-request",
    ] {
        let told = told::<TokenBucket>(&quota_and(foreign, "0"));
        assert!(
            told.starts_with(&format!("`{foreign}` is not a field")),
            "{told}"
        );
    }
}

#[test]
fn a_field_that_is_missing_is_named_with_what_it_is() {
    let quota = |a: &str| format!("a {a} needs `quota`, a quota such as \"20/s\"");
    assert_eq!(told::<TokenBucket>("{}"), quota("token-bucket"));
    assert_eq!(told::<Gcra>("{}"), quota("gcra"));
    assert_eq!(told::<LeakyBucket>("{}"), quota("leaky-bucket"));
    assert_eq!(told::<LeakyBucketQueue>("{}"), quota("leaky-bucket-queue"));
    assert_eq!(told::<FixedWindow>("{}"), quota("fixed-window"));
    assert_eq!(told::<SlidingLog>("{}"), quota("sliding-log"));
    assert_eq!(told::<SlidingWindow>("{}"), quota("sliding-window"));
    assert_eq!(told::<SlidingBuckets>("{}"), quota("sliding-buckets"));
    assert_eq!(
        told::<SlidingBuckets>(r#"{"quota":"20/s"}"#),
        r#"a sliding-buckets needs `precision`, a span of time such as "100ms""#
    );
    assert_eq!(
        told::<MinInterval>(r#"{"name":"n"}"#),
        r#"a min-interval needs `interval`, a span of time such as "100ms""#
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_its_field_and_what_is_expected() {
    let burst =
        |value: &str| told::<TokenBucket>(&format!(r#"{{"quota":"20/s","burst":{value}}}"#));
    assert_eq!(
        burst(r#""forty""#),
        r#"invalid type: string "forty", expected `burst` to be a whole number"#
    );
    assert_eq!(
        burst("-1"),
        "invalid value: integer `-1`, expected `burst` to be a whole number"
    );
    assert_eq!(
        burst("1.5"),
        "invalid type: floating point `1.5`, expected `burst` to be a whole number"
    );
    assert_eq!(
        burst("true"),
        "invalid type: boolean `true`, expected `burst` to be a whole number"
    );
    assert_eq!(
        burst("null"),
        "invalid type: null, expected `burst` to be a whole number"
    );
    assert_eq!(
        burst("[1]"),
        "invalid type: sequence, expected `burst` to be a whole number"
    );
    assert_eq!(
        told::<TokenBucket>(r#"{"quota":20}"#),
        r#"invalid type: integer `20`, expected `quota` to be a quota such as "20/s""#
    );
    assert_eq!(
        told::<MinInterval>(r#"{"interval":100}"#),
        r#"invalid type: integer `100`, expected `interval` to be a span of time such as "100ms""#
    );
    assert_eq!(
        told::<FixedWindow>(r#"{"quota":"1/s","from-first-request":"yes"}"#),
        r#"invalid type: string "yes", expected `from-first-request` to be true or false"#
    );
    assert_eq!(
        told::<Gcra>(r#"{"quota":"1/s","name":7}"#),
        "invalid type: integer `7`, expected `name` to be a text"
    );
    assert_eq!(
        told::<TokenBucket>(r#""20/s""#),
        r#"invalid type: string "20/s", expected a token-bucket as a map of `algorithm`, `quota`, `burst`, `name`"#
    );
    assert_eq!(
        told::<Quota>("20"),
        r#"invalid type: integer `20`, expected a quota such as "20/s""#
    );
}

#[test]
fn a_value_that_makes_no_sense_is_named_with_its_field() {
    assert_eq!(
        told::<TokenBucket>(r#"{"quota":"20/fortnight"}"#),
        r#"`quota`: "20/fortnight" is not a quota, such as "20/s", "3/10s" or "5000/day" (us, ms, s, min, h, day)"#
    );
    assert_eq!(
        told::<Quota>(r#""s/20""#),
        r#""s/20" is not a quota, such as "20/s", "3/10s" or "5000/day" (us, ms, s, min, h, day)"#
    );
    assert_eq!(
        told::<MinInterval>(r#"{"interval":"100"}"#),
        r#"`interval`: "100" is not a span of time, such as "100ms", "10s" or "5min" (us, ms, s, min, h, day)"#
    );
    assert_eq!(
        told::<MinInterval>(r#"{"interval":"0s"}"#),
        "`interval`: the period 0ns is shorter than one microsecond"
    );
    assert_eq!(
        told::<TokenBucket>(r#"{"quota":"20/s","burst":18446744073709551615}"#),
        "`burst`: 18446744073709551615 units with a period of 1s cannot be counted exactly"
    );
    assert_eq!(
        told::<LeakyBucketQueue>(r#"{"quota":"20/s","capacity":18446744073709551615}"#),
        "`capacity`: 18446744073709551615 units with a period of 1s cannot be counted exactly"
    );
    let too_large =
        "`quota`: 18446744073709551615 units with a period of 1s cannot be counted exactly";
    let json = r#"{"quota":"18446744073709551615/s"}"#;
    assert_eq!(told::<FixedWindow>(json), too_large);
    assert_eq!(told::<SlidingWindow>(json), too_large);
    assert_eq!(
        told::<SlidingBuckets>(r#"{"quota":"18446744073709551615/s","precision":"1s"}"#),
        too_large
    );

    let precision =
        |p: &str| told::<SlidingBuckets>(&format!(r#"{{"quota":"20/s","precision":"{p}"}}"#));
    assert_eq!(
        precision("300ms"),
        "`precision`: the precision 300ms does not divide the period 1s"
    );
    assert_eq!(
        precision("2s"),
        "`precision`: the precision 2s does not divide the period 1s"
    );
    assert_eq!(
        precision("1us"),
        "`precision`: the precision asks for 1000000 sub-counters, more than 1024: use a coarser one"
    );
    assert_eq!(
        precision("0ms"),
        "`precision`: the period 0ns is shorter than one microsecond"
    );
    assert_eq!(
        told::<SlidingLog>(r#"{"quota":"20/s","name":"a b"}"#),
        "`name`: the policy name \"a b\" is not 1 to 64 of the characters A-Z a-z 0-9 _ . -"
    );
}

#[test]
fn a_field_that_stands_twice_is_refused() {
    assert_eq!(
        told::<Gcra>(r#"{"quota":"1/s","burst":2,"burst":3}"#),
        "`burst` is given twice"
    );
}
