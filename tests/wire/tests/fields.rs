//! Every field that is sent, in every dialect, is read and written again by another's parser of structured fields.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Response};
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parser};
use tollgate::{
    Decision, PolicyDecision,
    algorithm::{Outcome, Policy, Standing},
    response::{Fields, Http},
};
use tollgate_wire::Rng;

const DIALECTS: [Fields; 5] = [
    Fields::Draft11,
    Fields::Draft7,
    Fields::Draft6,
    Fields::XRateLimit,
    Fields::Off,
];
const LARGEST: i64 = 999_999_999_999_999;

/// Reads the field as this type, writes it again and compares the bytes.
#[track_caller]
fn read<T: FieldType>(line: &str) -> T {
    let value: T = Parser::new(line)
        .parse()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let written: Option<String> = value.serialize().into();
    assert_eq!(written.as_deref(), Some(line));
    value
}

#[track_caller]
fn integer(item: &BareItem) -> i64 {
    let BareItem::Integer(integer) = item else {
        panic!("{item:?} is no integer");
    };
    let integer = i64::from(*integer);
    assert!((0..=LARGEST).contains(&integer), "{integer}");
    integer
}

#[track_caller]
fn item(entry: &ListEntry) -> &Item {
    let ListEntry::Item(item) = entry else {
        panic!("{entry:?} is an inner list");
    };
    item
}

/// The parameters of an item, in their order.
fn parameters(item: &Item) -> Vec<(&str, i64)> {
    let parameters = item.params.iter();
    parameters
        .map(|(key, value)| (key.as_str(), integer(value)))
        .collect()
}

/// The whole field as a recipient sees it: its lines joined.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    let lines: Vec<_> = (headers.get_all(name).iter())
        .map(|line| line.to_str().unwrap())
        .collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

fn clamped(number: u64) -> i64 {
    number.min(LARGEST as u64) as i64
}

fn rounded_up(duration: Duration) -> i64 {
    clamped(duration.as_micros().div_ceil(1_000_000) as u64)
}

fn whole_window(policy: &PolicyDecision) -> Option<i64> {
    (policy.window() >= Duration::from_secs(1)).then(|| rounded_up(policy.window()))
}

/// A list of named policies with `q` and `w`, and one with `r` and `t`: the numbers are those of the decision.
fn assert_draft_11(decision: &Decision, headers: &HeaderMap) {
    let policies: List = read(&joined(headers, "ratelimit-policy").unwrap());
    assert_eq!(policies.len(), decision.policies().len());
    for (entry, policy) in policies.iter().zip(decision.policies()) {
        let item = item(entry);
        assert_eq!(
            item.bare_item.as_string().unwrap().as_str(),
            policy.policy()
        );
        let mut expected = vec![("q", clamped(policy.limit()))];
        expected.extend(whole_window(policy).map(|seconds| ("w", seconds)));
        assert_eq!(parameters(item), expected);
    }
    let rates: List = read(&joined(headers, "ratelimit").unwrap());
    let told = (decision.policies().iter())
        .filter(|policy| decision.is_admitted() || !policy.is_admitted());
    assert_eq!(rates.len(), told.clone().count());
    for (entry, policy) in rates.iter().zip(told) {
        let item = item(entry);
        assert_eq!(
            item.bare_item.as_string().unwrap().as_str(),
            policy.policy()
        );
        let seconds = rounded_up(policy.replenished_after());
        let mut expected = vec![("r", clamped(policy.remaining()))];
        expected.extend((seconds > 0).then_some(("t", seconds)));
        assert_eq!(parameters(item), expected);
    }
}

/// `40;w=2, 1000;w=86400` of drafts 6 and 7: a list of integers, one for each policy with a window to tell.
fn assert_older_policies(decision: &Decision, headers: &HeaderMap) {
    let expected: Vec<_> = (decision.policies().iter())
        .filter_map(|policy| Some((clamped(policy.limit()), whole_window(policy)?)))
        .collect();
    let Some(line) = joined(headers, "ratelimit-policy") else {
        assert!(expected.is_empty());
        return;
    };
    let policies: List = read(&line);
    let told = policies.iter().map(|entry| {
        let [("w", seconds)] = parameters(item(entry))[..] else {
            panic!("{line}");
        };
        (integer(&item(entry).bare_item), seconds)
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

fn assert_draft_7(decision: &Decision, headers: &HeaderMap) {
    assert_older_policies(decision, headers);
    let told: Dictionary = read(&joined(headers, "ratelimit").unwrap());
    let members = told.iter().map(|(key, entry)| {
        assert!(item(entry).params.is_empty());
        (key.as_str(), integer(&item(entry).bare_item))
    });
    let names = ["limit", "remaining", "reset"];
    let expected = names.into_iter().zip(three(decision));
    assert!(members.eq(expected), "{told:?}");
}

/// Limit, remaining and reset of the whole decision.
fn three(decision: &Decision) -> [i64; 3] {
    let reset = decision.retry_after().unwrap_or(decision.reset_after());
    [
        clamped(decision.limit()),
        clamped(decision.remaining()),
        rounded_up(reset),
    ]
}

fn assert_three(decision: &Decision, headers: &HeaderMap, prefix: &str) {
    let names = ["limit", "remaining", "reset"];
    for (name, expected) in names.into_iter().zip(three(decision)) {
        let name = format!("{prefix}-{name}");
        assert_eq!(headers.get_all(&name).iter().count(), 1);
        let told: Item = read(&joined(headers, &name).unwrap());
        assert!(told.params.is_empty());
        assert_eq!(integer(&told.bare_item), expected, "{name}");
    }
}

fn assert_dialect(fields: Fields, decision: &Decision, headers: &HeaderMap) {
    let mut names: HashSet<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    let mut only = |expected: &[&str]| {
        for name in ["content-type", "cache-control", "retry-after"] {
            names.remove(name);
        }
        let expected: HashSet<&str> = expected.iter().copied().collect();
        assert!(names.is_subset(&expected), "{names:?}");
    };
    match fields {
        Fields::Draft11 => {
            assert_draft_11(decision, headers);
            only(&["ratelimit", "ratelimit-policy"]);
        }
        Fields::Draft7 => {
            assert_draft_7(decision, headers);
            only(&["ratelimit", "ratelimit-policy"]);
        }
        Fields::Draft6 => {
            assert_older_policies(decision, headers);
            assert_three(decision, headers, "ratelimit");
            only(&[
                "ratelimit-policy",
                "ratelimit-limit",
                "ratelimit-remaining",
                "ratelimit-reset",
            ]);
        }
        Fields::XRateLimit => {
            assert_three(decision, headers, "x-ratelimit");
            only(&[
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ]);
        }
        _ => only(&[]),
    }
}

/// `Retry-After` is the exact wait in whole seconds, rounded up, at least 1; or it is not there.
fn assert_retry_after(decision: &Decision, headers: &HeaderMap) {
    let told = joined(headers, "retry-after");
    match decision.retry_after() {
        None => assert_eq!(told, None),
        Some(wait) => {
            let told: Item = read(&told.unwrap());
            assert!(told.params.is_empty());
            assert_eq!(integer(&told.bare_item), rounded_up(wait).max(1));
        }
    }
}

/// The body is JSON, its status is the real one, and it names the policies that refuse, in their order.
fn assert_problem(decision: &Decision, response: &Response<Bytes>) {
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(problem["status"], response.status().as_u16());
    assert!(problem["title"].is_string() && problem["detail"].is_string());
    let refusing: Vec<_> = (decision.policies().iter())
        .filter(|policy| !policy.is_admitted())
        .map(PolicyDecision::policy)
        .collect();
    assert_eq!(problem["violated-policies"], serde_json::json!(refusing));
}

fn assert_all_dialects(decision: &Decision) {
    for fields in DIALECTS {
        let http = Http::new().fields(fields);
        let mut headers = HeaderMap::new();
        http.add_fields(decision, &mut headers);
        assert_dialect(fields, decision, &headers);
        let response: Response<Bytes> = http.response(decision);
        assert_dialect(fields, decision, response.headers());
        assert_retry_after(decision, response.headers());
        match decision.is_admitted() {
            true => assert_eq!(response.status(), 200),
            false => {
                assert_eq!(response.status(), 429);
                assert_problem(decision, &response);
            }
        }
    }
}

fn any_name(rng: &mut Rng) -> String {
    const ALLOWED: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    let length = match rng.below(4) {
        0 => 64,
        1 => 1,
        _ => 1 + rng.below(64),
    };
    let characters = (0..length).map(|_| ALLOWED[rng.below(ALLOWED.len() as u64) as usize]);
    characters.map(char::from).collect()
}

fn any_policy(rng: &mut Rng) -> PolicyDecision {
    let (limit, window) = (rng.edgy(), Duration::from_micros(rng.edgy().max(1)));
    let policy = Policy::new("any", &[limit], window);
    let policy = policy
        .named(any_name(rng))
        .expect("its characters are allowed");
    let standing = Standing {
        remaining: rng.edgy(),
        outcome: match rng.below(5) {
            0..3 => Outcome::Admitted,
            3 => Outcome::RefusedForMicros(rng.edgy()),
            _ => Outcome::NeverFits,
        },
        replenished_after_micros: rng.edgy(),
        reset_after_micros: rng.edgy(),
        delay_micros: 0,
    };
    PolicyDecision::new(&policy, standing)
}

#[test]
fn every_field_of_any_decision_is_read_and_written_again_to_the_same_bytes() {
    let mut rng = Rng::new(45);
    let (mut admitted, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let decision = match rng.below(2) {
            0 => Decision::of_one(any_policy(&mut rng)),
            _ => {
                let members = 1 + rng.below(6);
                Decision::of_all((0..members).map(|_| any_policy(&mut rng)).collect())
            }
        };
        match decision.is_admitted() {
            true => admitted += 1,
            false => refused += 1,
        }
        assert_all_dialects(&decision);
    }
    assert!(
        admitted > 500 && refused > 500,
        "{admitted} admitted, {refused} refused"
    );
}

#[test]
fn every_character_that_a_name_may_have_is_sent_as_it_is() {
    for byte in 0..=u8::MAX {
        let name = String::from_utf8_lossy(&[b'x', byte]).into_owned();
        let policy = Policy::new("any", &[1], Duration::from_secs(1)).named(&name);
        let allowed = byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        assert_eq!(policy.is_ok(), allowed, "{name:?}");
        if let Ok(policy) = policy {
            let standing = Standing::of(1, 0, 1, true, |_| Some(0));
            assert_all_dialects(&Decision::of_one(PolicyDecision::new(&policy, standing)));
        }
    }
}

#[test]
fn lines_of_several_layers_are_one_list_to_whoever_joins_them() {
    let mut rng = Rng::new(60);
    for _ in 0..500 {
        let decisions = [any_policy(&mut rng), any_policy(&mut rng)].map(Decision::of_one);
        let mut headers = HeaderMap::new();
        for decision in &decisions {
            Http::new().add_fields(decision, &mut headers);
        }
        for name in ["ratelimit", "ratelimit-policy"] {
            let list: List = read(&joined(&headers, name).unwrap());
            assert_eq!(list.len(), 2);
        }
    }
}

#[test]
fn a_window_below_a_second_has_no_w() {
    let policy = Policy::new("any", &[5], Duration::from_millis(999));
    let standing = Standing::of(5, 4, 1, true, |_| Some(1));
    let decision = Decision::of_one(PolicyDecision::new(&policy, standing));
    let mut headers = HeaderMap::new();
    Http::new().add_fields(&decision, &mut headers);
    assert_eq!(headers["ratelimit-policy"], "\"any-5-999ms\";q=5");
    assert_eq!(headers["ratelimit"], "\"any-5-999ms\";r=4;t=1");
}
