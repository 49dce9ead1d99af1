//! Every algorithm of the crate is in the playground: its form offers it, it is read, its line of
//! Rust makes it, its bound is the printed one, and a refusal says why.

use std::{fs, path::Path, time::Duration};

use playground::{
    algorithms::ALGORITHMS,
    bound::{self, bound},
    field::{Field, Input},
    limit::{Fields, Limit},
    lines, picture,
    simulate::{Looks, Request},
    why::why,
};
use serde_json::{Value, json};
use tollgate::{Quota, algorithm::*};
use tollgate_algorithms::*;

/// What the list makes its algorithms of; times are in microseconds.
struct Numbers {
    units: u64,
    period: u64,
    burst: u64,
    precision: u64,
    interval: u64,
}

const NUMBERS: Numbers = Numbers {
    units: 20,
    period: 1_000_000,
    burst: 7,
    precision: 100_000,
    interval: 300_000,
};

/// The same, as somebody would fill in the form.
fn filled_in(field: &Field) -> Value {
    match (field.name, field.input) {
        ("quota", _) => json!("20/s"),
        ("precision", _) => json!("100ms"),
        (_, Input::Text) => json!("300ms"),
        (_, Input::Number) => json!(7),
        (_, Input::Check) => json!(true),
    }
}

/// The same, as the list writes it.
fn as_in_the_list(rust: &str) -> String {
    let named = rust
        .replace("Quota::per_second(20)", "quota")
        .replace("(7)", "(burst)")
        .replace("Duration::from_millis(100)", "step")
        .replace("Duration::from_millis(300)", "gap");
    without_spaces(&named)
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// A policy without a name is its algorithm and its numbers.
fn identity_of(rule: &impl KeyLimit) -> String {
    format!("{:?}", rule.policy_id())
}

/// A limit that somebody can choose in the form.
struct Offered {
    limit: Limit,
    identity: String,
}

/// All limits that the form offers: each algorithm with any of its fields.
fn every_limit_of_the_form() -> Vec<Offered> {
    let mut every = Vec::new();
    for entry in ALGORITHMS.iter() {
        let before = every.len();
        for chosen in 0..1_u32 << entry.fields.len() {
            let mut limit = Fields::new();
            limit.insert("algorithm".to_owned(), json!(entry.name));
            for (index, field) in entry.fields.iter().enumerate() {
                if chosen >> index & 1 == 1 {
                    limit.insert(field.name.to_owned(), filled_in(field));
                }
            }
            // Some fields are needed, and some exclude each other.
            if let Ok(limit) = Limit::read(limit) {
                let identity = identity_of(limit.rule());
                every.push(Offered { limit, identity });
            }
        }
        for field in &entry.fields {
            let has_it = |it: &Offered| it.limit.fields().contains_key(field.name);
            assert!(
                every[before..].iter().any(has_it),
                "the form offers {:?} of {:?}, which is not read",
                field.name,
                entry.name
            );
        }
    }
    every
}

/// What a limit says of the last of these requests, which it refuses.
fn refusal(limit: &Limit, requests: &[Request]) -> String {
    let decided = limit.run(requests, &Looks::default()).decided;
    let told = decided.last().unwrap();
    assert!(!told.is_admitted, "{limit:?}");
    why(&limit.clone().into(), requests.last().unwrap(), told)
}

#[test]
fn each_algorithm_can_be_chosen_and_has_its_line_its_bound_and_its_reasons() {
    let offered = every_limit_of_the_form();
    let mut requests = vec![Request::at(0); 100];
    for request in &mut requests {
        request.runs_micros = 1;
    }
    let all_run = "All places are taken by requests that still run.";
    let check = |name: &str, identity: String, in_rust: &str, model: &dyn Model| {
        let same = offered.iter().filter(|it| it.identity == identity);
        let same: Vec<_> = same.map(|it| &it.limit).collect();
        assert!(
            !same.is_empty(),
            "{name}: the form does not offer it, or it is not read"
        );

        let in_rust = without_spaces(in_rust);
        let line = |limit: &&&Limit| as_in_the_list(&lines::rust(limit)) == in_rust;
        let lines: Vec<_> = same.iter().map(|limit| lines::rust(limit)).collect();
        let limit = same.iter().find(line);
        let limit = limit.unwrap_or_else(|| panic!("{name}: no line is {in_rust}: {lines:?}"));

        let (bound, expected) = (bound(limit, 1), model.bound(1));
        let counts = match bound.counts {
            bound::Counts::Units => Counts::Units,
            bound::Counts::Releases => Counts::Releases,
            bound::Counts::Requests => Counts::Requests,
            other => panic!("{name}: the bound counts {other:?}"),
        };
        let most = bound.most.map(i128::from);
        assert_eq!(
            (most, i128::from(bound.span_micros), counts),
            (Some(expected.most), expected.span, expected.counts),
            "{name}"
        );

        // What the only one says that holds places.
        let refusal = refusal(limit, &requests);
        assert!(!refusal.contains(all_run), "{name}: {refusal}");
    };
    let Numbers { burst, .. } = NUMBERS;
    let quota = Quota::new(NUMBERS.units, Duration::from_micros(NUMBERS.period));
    let (step, gap) = (
        Duration::from_micros(NUMBERS.precision),
        Duration::from_micros(NUMBERS.interval),
    );
    macro_rules! check_each {
        ($given:tt $($name:literal, $algorithm:expr, $model:ident($($number:ident),*);)+) => {$(
            let identity = identity_of(&$algorithm);
            let model = $model($(NUMBERS.$number),*);
            check($name, identity, stringify!($algorithm), &*model);
        )+};
    }
    every_algorithm!(check_each, quota, burst, step, gap);
    let in_flight = Limit::of(r#"{"algorithm": "in-flight", "requests": 5}"#);
    assert!(refusal(&in_flight, &requests).contains(all_run));
}

#[test]
fn each_algorithm_is_in_the_picture_with_all_of_them_and_its_docs_have_one() {
    let pictures = picture::all();
    let of_all = pictures
        .iter()
        .find(|picture| picture.name == "algorithms")
        .unwrap();
    let of_all = of_all.svg.to_lowercase();
    for name in ALGORITHMS.iter().map(|entry| entry.name) {
        for word in name.split('-') {
            assert!(of_all.contains(word), "{name} is not in the picture of all");
        }
        // A queue is made of a bucket.
        let file = name.replace('-', "_").replace("_queue", "") + ".rs";
        let docs = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../src/algorithm")
            .join(file);
        let docs = fs::read_to_string(&docs).unwrap_or_else(|error| panic!("{name}: {error}"));
        let has_picture = docs.contains("include_str!(\"../docs/pictures/");
        assert!(has_picture, "{name} has no picture");
    }
}
