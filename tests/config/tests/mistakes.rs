//! The message of a mistake names the field, the value, and what is allowed there; in a file of
//! rules also the line or the rule.

use serde::de::DeserializeOwned;
use tollgate::{Quota, algorithm::*};

use crate::rules_mistakes::{GOOD, LIMIT, mistake};

/// The examples of a file: each a text, and the message that stands below it.
fn examples(file: &str) -> Vec<(String, &str)> {
    let mut examples = Vec::new();
    let mut text = String::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("    ") {
            Some(message) => examples.push((std::mem::take(&mut text), message)),
            None if line.is_empty() => {}
            None => text += &format!("{line}\n"),
        }
    }
    examples
}

/// The message of this mistake, without its line.
fn told<R: DeserializeOwned>(json: &str) -> String {
    let error = serde_json::from_str::<R>(json).err();
    let told = error.unwrap_or_else(|| panic!("{json} was read"));
    told.to_string()
        .split(" at line ")
        .next()
        .unwrap()
        .to_owned()
}

/// A message that ends with `…` is the beginning of what is told.
fn assert_is_told(told: &str, message: &str, example: &str) {
    match message.strip_suffix('…') {
        Some(begin) => assert!(told.starts_with(begin), "{told}, of {example}"),
        None => assert_eq!(told, message, "of {example}"),
    }
}

#[test]
fn a_mistake_in_a_limit_is_told_with_its_field_its_value_and_what_is_allowed() {
    for (example, message) in examples(include_str!("mistakes/limits.txt")) {
        let (read_as, json) = example.trim_end().split_once(' ').unwrap();
        let told = match read_as {
            "FixedWindow" => told::<FixedWindow>,
            "Gcra" => told::<Gcra>,
            "LeakyBucket" => told::<LeakyBucket>,
            "LeakyBucketQueue" => told::<LeakyBucketQueue>,
            "MinInterval" => told::<MinInterval>,
            "Quota" => told::<Quota>,
            "SlidingBuckets" => told::<SlidingBuckets>,
            "SlidingLog" => told::<SlidingLog>,
            "SlidingWindow" => told::<SlidingWindow>,
            "TokenBucket" => told::<TokenBucket>,
            other => panic!("{other}"),
        };
        assert_is_told(&told(json), message, json);
    }
}

#[test]
fn a_mistake_in_a_file_of_rules_is_told_with_its_line_or_rule() {
    for (example, message) in examples(include_str!("mistakes/rules.txt")) {
        let file = example.replace("GOOD\n", GOOD).replace("LIMIT\n", LIMIT);
        assert_is_told(&mistake(&file), message, &example);
    }
}
