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
    let json = r#"[{"quota":"20/s","name":"a"},{"quota":"9/day","name":"b"}]"#;
    let limits: EachOf<(TokenBucket, FixedWindow)> = serde_json::from_str(json).unwrap();
    let window = FixedWindow::new(Quota::per_day(9)).named("b");
    let built = EachOf((TokenBucket::new(SECOND).named("a"), window));
    assert_eq!(format!("{limits:?}"), format!("{built:?}"));
}

const SECOND: Quota = Quota::per_second(20);
const TENTH: Duration = Duration::from_millis(100);

/// What a variable of the list is in a file.
fn value(variable: &str) -> String {
    let value = match variable {
        "quota" => "\"20/s\"",
        "burst" | "requests" => "7",
        "precision" => "\"100ms\"",
        "interval" => "\"300ms\"",
        other => panic!("{other:?} is no variable of the list"),
    };
    value.to_owned()
}

#[test]
fn every_algorithm_is_read_as_it_is_built_in_code() {
    let (quota, burst, precision, interval) = (SECOND, 7, TENTH, TENTH * 3);
    macro_rules! is_read {
        // What counts requests is a method on what was read.
        (debt_bucket_per_request, $algorithm:expr) => {};
        (sliding_log_per_request, $algorithm:expr) => {};
        ($model:ident, $algorithm:expr) => {
            let fields = in_a_file(stringify!($algorithm), value).expect("fields");
            reads(&json(&fields), $algorithm);
        };
        ($given:tt $($name:literal, $algorithm:expr, $model:ident $numbers:tt;)+) => {
            $(is_read!($model, $algorithm);)+
        };
    }
    every_algorithm!(is_read, quota, burst, precision, interval);
}

/// Beside those in the list of all algorithms.
#[test]
fn each_field_of_every_algorithm_may_be_there_or_not() {
    let (quota, burst, requests) = (SECOND, 7, 7);
    let interval = TENTH * 3;
    macro_rules! are_read {
        ($($algorithm:expr;)+) => {$(
            let fields = in_a_file(stringify!($algorithm), value).expect("fields");
            reads(&json(&fields), $algorithm);
        )+};
    }
    are_read! {
        Gcra::new(quota);
        Gcra::new(quota).wait_at_most(interval);
        LeakyBucket::new(quota);
        LeakyBucket::new(quota).capacity(burst).wait_at_most(interval);
        LeakyBucket::new(quota).queue();
        LeakyBucket::new(quota).queue().capacity(burst);
        InFlight::new(requests);
    }
    // The name of the algorithm may be missing, too: the type has it.
    let bucket = TokenBucket::new(SECOND).burst(0);
    reads(r#"{"quota":"20/s","burst":0}"#, bucket);
    let window = FixedWindow::new(SECOND);
    reads(r#"{"quota":"20/s","from-first-request":false}"#, window);
    let held = InFlight::new(5).held_at_most(Duration::from_secs(10));
    reads(r#"{"requests":5,"held-at-most":"10s"}"#, held);
}

#[test]
fn a_tuple_is_a_list() {
    let json = r#"[{"algorithm":"min-interval","interval":"100ms"},{"algorithm":"token-bucket","quota":"20/s"}]"#;
    let read: (MinInterval, TokenBucket) = serde_json::from_str(json).unwrap();
    let built = (MinInterval::new(TENTH), TokenBucket::new(SECOND));
    assert_eq!(read.policy_id(), built.policy_id());

    let swapped = serde_json::from_str::<(TokenBucket, MinInterval)>(json).unwrap_err();
    let told = r#"`algorithm` is "min-interval" where only "token-bucket" is allowed"#;
    assert!(swapped.to_string().starts_with(told), "{swapped}");
    let short = serde_json::from_str::<(MinInterval, TokenBucket, TokenBucket)>(json).unwrap_err();
    assert!(short.to_string().starts_with("invalid length 2"), "{short}");
}

#[test]
fn a_quota_is_written_as_the_text_that_it_is_read_from() {
    let texts = "20/s 100/min 1000/h 5000/day 3/10s 1/100ms 0/7us 18446744073709551615/2day";
    for text in texts.split(' ') {
        let json = format!("{text:?}");
        let quota: Quota = serde_json::from_str(&json).unwrap();
        assert_eq!(quota, text.parse().unwrap());
        assert_eq!(serde_json::to_string(&quota).unwrap(), json);
        assert_eq!(serde_json::to_value(quota).unwrap(), text);
        assert_eq!(serde_json::from_value::<Quota>(text.into()).unwrap(), quota);
    }
}
