//! An algorithm read from configuration equals the one built in code.

use std::{fmt::Debug, time::Duration};

use serde::de::DeserializeOwned;
use tollgate::{EachOf, Quota, algorithm::*};
use tollgate_algorithms::every_algorithm;
use tollgate_config_tests::in_a_file::{in_a_file, json};

/// Both formats read the algorithm that was built in code. (`Debug` shows all of its numbers.)
fn reads<R: DeserializeOwned + Debug>(json: &str, built: R) {
    let value: toml::Table = serde_json::from_str(json).unwrap();
    let toml = toml::to_string(&value).unwrap();
    let of_json: R = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let of_toml: R = toml::from_str(&toml).unwrap_or_else(|error| panic!("{toml}: {error}"));
    assert_eq!(format!("{of_json:?}"), format!("{built:?}"), "{json}");
    assert_eq!(format!("{of_toml:?}"), format!("{built:?}"), "{toml}");
}

#[test]
fn the_limits_of_several_keys_are_a_list() {
    let limits: EachOf<(TokenBucket, FixedWindow)> = serde_json::from_str(
        r#"[{"quota":"20/s","name":"per-address"},{"quota":"9/day","name":"per-account"}]"#,
    )
    .unwrap();
    let built = EachOf((
        TokenBucket::new(SECOND).named("per-address"),
        FixedWindow::new(Quota::per_day(9)).named("per-account"),
    ));
    assert_eq!(format!("{limits:?}"), format!("{built:?}"));
}

const SECOND: Quota = Quota::per_second(20);
const TENTH: Duration = Duration::from_millis(100);

#[test]
fn every_algorithm_is_read_as_it_is_built_in_code_and_has_its_row_in_the_chapter() {
    let (quota, burst, precision, interval) = (SECOND, 7, TENTH, TENTH * 3);
    let value = |variable: &str| match variable {
        "quota" => "\"20/s\"".to_owned(),
        "burst" => "7".to_owned(),
        "precision" => "\"100ms\"".to_owned(),
        "interval" => "\"300ms\"".to_owned(),
        other => panic!("{other:?} is no variable of the list"),
    };
    macro_rules! is_read {
        // What counts requests is a method on what was read.
        (debt_bucket_per_request, $algorithm:expr) => {};
        (sliding_log_per_request, $algorithm:expr) => {};
        ($model:ident, $algorithm:expr) => {
            let fields = in_a_file(stringify!($algorithm), value).expect("fields");
            reads(&json(&fields), $algorithm);
            is_in_the_chapter(&fields);
        };
        ($given:tt $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {
            $(is_read!($model, $algorithm);)+
        };
    }
    every_algorithm!(is_read, quota, burst, precision, interval);
}

/// Its name and its fields stand in a row of the table of all algorithms.
fn is_in_the_chapter(fields: &[(String, String)]) {
    let chapter = include_str!("../../../src/docs/limits_from_a_file.md");
    let (algorithm, others) = fields.split_first().expect("the algorithm");
    let others = others.iter().map(|(name, _)| format!("`{name}"));
    let texts: Vec<_> = others.chain([format!("`{}`", algorithm.1)]).collect();
    let mut rows = chapter.lines().filter(|line| line.starts_with('|'));
    let is_its_row = |row: &str| texts.iter().all(|text| row.contains(text));
    assert!(
        rows.any(is_its_row),
        "the chapter has no row with {texts:?}"
    );
}

#[test]
fn each_field_of_every_algorithm_may_be_there_or_not() {
    let bucket = || TokenBucket::new(SECOND);
    reads(r#"{"algorithm":"token-bucket","quota":"20/s"}"#, bucket());
    reads(
        r#"{"algorithm":"token-bucket","quota":"20/s","burst":40}"#,
        bucket().burst(40),
    );
    reads(r#"{"quota":"20/s","burst":0}"#, bucket().burst(0));

    reads(r#"{"algorithm":"gcra","quota":"20/s"}"#, Gcra::new(SECOND));
    reads(
        r#"{"algorithm":"gcra","quota":"20/s","burst":1}"#,
        Gcra::new(SECOND).burst(1),
    );

    let leaky = || LeakyBucket::new(SECOND);
    reads(r#"{"algorithm":"leaky-bucket","quota":"20/s"}"#, leaky());
    reads(
        r#"{"algorithm":"leaky-bucket","quota":"20/s","capacity":5}"#,
        leaky().capacity(5),
    );
    reads(
        r#"{"algorithm":"leaky-bucket-queue","quota":"20/s"}"#,
        leaky().queue(),
    );
    let queue = r#"{"algorithm":"leaky-bucket-queue","quota":"20/s","capacity":5}"#;
    reads(queue, leaky().capacity(5).queue());
    reads(queue, leaky().queue().capacity(5));

    let wait = Duration::from_secs(5);
    reads(
        r#"{"algorithm":"token-bucket","quota":"20/s","burst":40,"wait-at-most":"5s"}"#,
        bucket().burst(40).wait_at_most(wait),
    );
    reads(
        r#"{"algorithm":"gcra","quota":"20/s","wait-at-most":"5s"}"#,
        Gcra::new(SECOND).wait_at_most(wait),
    );
    reads(
        r#"{"quota":"20/s","capacity":5,"wait-at-most":"5s"}"#,
        leaky().capacity(5).wait_at_most(wait),
    );

    let window = || FixedWindow::new(Quota::per_day(5_000));
    reads(
        r#"{"algorithm":"fixed-window","quota":"5000/day"}"#,
        window(),
    );
    reads(
        r#"{"quota":"5000/day","from-first-request":false}"#,
        window(),
    );
    reads(
        r#"{"quota":"5000/day","from-first-request":true}"#,
        window().from_first_request(),
    );

    reads(
        r#"{"algorithm":"sliding-log","quota":"20/s"}"#,
        SlidingLog::new(SECOND),
    );
    reads(
        r#"{"algorithm":"sliding-window","quota":"20/s"}"#,
        SlidingWindow::new(SECOND),
    );

    let buckets = || SlidingBuckets::new(SECOND, TENTH);
    reads(
        r#"{"algorithm":"sliding-buckets","quota":"20/s","precision":"100ms"}"#,
        buckets(),
    );
    reads(
        r#"{"quota":"20/s","precision":"100ms","strict":false}"#,
        buckets(),
    );
    reads(
        r#"{"strict":true,"precision":"100ms","quota":"20/s"}"#,
        buckets().strict(),
    );

    reads(
        r#"{"algorithm":"min-interval","interval":"100ms"}"#,
        MinInterval::new(TENTH),
    );

    reads(
        r#"{"algorithm":"in-flight","requests":5}"#,
        InFlight::new(5),
    );
    reads(
        r#"{"requests":5,"held-at-most":"10s"}"#,
        InFlight::new(5).held_at_most(Duration::from_secs(10)),
    );
}

#[test]
fn a_tuple_is_a_list() {
    let json = r#"[{"algorithm":"min-interval","interval":"100ms"},{"algorithm":"token-bucket","quota":"20/s"}]"#;
    let read: (MinInterval, TokenBucket) = serde_json::from_str(json).unwrap();
    let built = (MinInterval::new(TENTH), TokenBucket::new(SECOND));
    assert_eq!(read.policies(), built.policies());

    let swapped = serde_json::from_str::<(TokenBucket, MinInterval)>(json).unwrap_err();
    let told = swapped.to_string();
    assert!(
        told.starts_with(r#"`algorithm` is "min-interval" where only "token-bucket" is allowed"#),
        "{told}"
    );
    let short = serde_json::from_str::<(MinInterval, TokenBucket, TokenBucket)>(json).unwrap_err();
    assert!(short.to_string().starts_with("invalid length 2"), "{short}");
}

#[test]
fn a_quota_is_written_as_the_text_that_it_is_read_from() {
    for text in [
        "20/s",
        "100/min",
        "1000/h",
        "5000/day",
        "3/10s",
        "1/100ms",
        "0/7us",
        "18446744073709551615/2day",
    ] {
        let json = format!("{text:?}");
        let quota: Quota = serde_json::from_str(&json).unwrap();
        assert_eq!(quota, text.parse().unwrap());
        assert_eq!(serde_json::to_string(&quota).unwrap(), json);
        assert_eq!(serde_json::to_value(quota).unwrap(), text);
        assert_eq!(serde_json::from_value::<Quota>(text.into()).unwrap(), quota);
    }
}
