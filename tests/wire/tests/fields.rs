//! Every rate-limit field is what another's parser of structured fields (RFC 9651) understands,
//! byte for byte.

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http::{HeaderMap, HeaderName, Response};
use sfv::{BareItem, Dictionary, FieldType, Item, List, ListEntry, Parameters, Parser};
use tollgate::{
    Decision, PolicyDecision,
    algorithm::{Judgement, Policy, Status},
    response::{Fields, Http},
};

const LARGEST: i64 = 999_999_999_999_999;
const MOST: u64 = LARGEST as u64;
const UNITS: [u64; 8] = [0, 1, 39, (1 << 32) - 1, MOST, MOST + 1, (1 << 63) - 1, !0];
const MICROS: [u64; 8] = [0, 1, 999_999, 1_000_000, 1_000_001, 1 << 36, 1 << 60, !0];
/// Each character that a name may have.
const NAMES: [&str; 5] = [
    "a",
    "-",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "0123456789012345678901234567890123456789012345678901234567890123",
];

fn one_of<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// One at an edge, or a number with any count of bits.
fn number(random: &mut Rng, edges: &[u64]) -> u64 {
    match random.u64(..2) {
        0 => one_of(random, edges),
        _ => random.u64(..) >> random.u32(..64),
    }
}

fn policy(random: &mut Rng) -> PolicyDecision {
    let window = match random.u64(..16) {
        0 => Duration::MAX,
        _ => Duration::from_micros(number(random, &MICROS)),
    };
    let numbers = [number(random, &UNITS), number(random, &UNITS)];
    let mut policy = Policy::new("some-algorithm", &numbers, window);
    if random.u64(..4) > 0 {
        policy = policy.named(one_of(random, &NAMES)).unwrap();
    }
    let judgement = match random.u64(..4) {
        0 => Judgement::RefusedForMicros(number(random, &MICROS)),
        1 => Judgement::NeverFits,
        _ => Judgement::Admitted,
    };
    let standing = Status {
        remaining: number(random, &UNITS),
        judgement,
        replenished_after_micros: number(random, &MICROS),
        reset_after_micros: number(random, &MICROS),
        delay_micros: number(random, &MICROS),
    };
    PolicyDecision::new(&policy, standing)
}

fn decision(random: &mut Rng) -> Decision {
    match random.u64(..4) {
        0 => Decision::of_one(policy(random)),
        more => Decision::of_all((0..more).map(|_| policy(random)).collect()),
    }
}

fn each_of_many(mut check: impl FnMut(&Decision)) {
    let mut random = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    let mut refused = 0;
    for _ in 0..20_000 {
        let decision = decision(&mut random);
        refused += u32::from(!decision.is_admitted());
        check(&decision);
    }
    assert!((5_000..19_000).contains(&refused), "{refused}");
}

/// The fields as they are added to a response, and as they are on a refusal: of the names of their
/// dialect, and of no others.
fn told(fields: Fields, decision: &Decision) -> Vec<HeaderMap> {
    let http = Http::new().fields(fields);
    let mut added = HeaderMap::new();
    http.add_fields(decision, &mut added);
    let response: Response<Bytes> = http.response(decision);
    let told = vec![added, response.headers().clone()];
    for name in told.iter().flat_map(HeaderMap::keys) {
        let is_of_limits = name.as_str().contains("ratelimit");
        assert!(!is_of_limits || fields.names().contains(name), "{name}");
    }
    told
}

/// The one line of a field, read; it is written again to the same bytes.
fn read<T: FieldType<SerializeResult = Option<String>>>(line: &[u8]) -> T {
    let line = std::str::from_utf8(line).unwrap();
    let read = Parser::new(line).parse();
    let field: T = read.unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(field.serialize().as_deref(), Some(line));
    field
}

fn lines<T: FieldType<SerializeResult = Option<String>>>(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Vec<T> {
    let lines = headers.get_all(name).iter();
    lines.map(|line| read(line.as_bytes())).collect()
}

fn item(entry: ListEntry) -> Item {
    match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(list) => panic!("no member is a list: {list:?}"),
    }
}

/// The members of a list, which is in one line.
fn members(headers: &HeaderMap, name: &HeaderName) -> Vec<Item> {
    let mut lines = lines::<List>(headers, name);
    assert!(lines.len() <= 1, "{headers:?}");
    let line = lines.pop().unwrap_or_default();
    line.into_iter().map(item).collect()
}

fn integer(item: &BareItem) -> i64 {
    let integer = item.as_integer().expect("an integer");
    let integer = i64::from(integer);
    assert!((0..=LARGEST).contains(&integer));
    integer
}

fn parameter(parameters: &Parameters, name: &str) -> Option<i64> {
    parameters.get(name).map(integer)
}

fn clamped(number: u64) -> i64 {
    i64::try_from(number).map_or(LARGEST, |number| number.min(LARGEST))
}

fn rounded_up(duration: Duration) -> i64 {
    clamped(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

#[test]
fn draft_11_tells_each_policy_and_what_is_left_of_it_and_on_a_refusal_of_those_that_refuse() {
    let name = |item: &Item| item.bare_item.as_string().unwrap().to_string();
    each_of_many(|decision| {
        for headers in told(Fields::Draft11, decision) {
            let policies = members(&headers, &POLICY);
            assert_eq!(policies.len(), decision.policies().len());
            for (item, policy) in policies.iter().zip(decision.policies()) {
                assert_eq!(name(item), policy.policy());
                let quota = parameter(&item.params, "q");
                assert_eq!(quota, Some(clamped(policy.limit())));
                let window = parameter(&item.params, "w");
                let can_be_told = policy.window() >= Duration::from_secs(1);
                assert_eq!(window, can_be_told.then(|| rounded_up(policy.window())));
                assert_eq!(item.params.len(), 1 + usize::from(can_be_told));
            }
            let left = members(&headers, &RATE_LIMIT);
            let told = decision.policies().iter();
            let told = told.filter(|policy| decision.is_admitted() || !policy.is_admitted());
            assert_eq!(left.len(), told.clone().count());
            for (item, policy) in left.iter().zip(told) {
                assert_eq!(name(item), policy.policy());
                let left = parameter(&item.params, "r").unwrap();
                assert_eq!(left, clamped(policy.remaining()));
                let seconds = rounded_up(policy.replenished_after());
                let is_told = seconds > 0;
                assert_eq!(parameter(&item.params, "t"), is_told.then_some(seconds));
                assert_eq!(item.params.len(), 1 + usize::from(is_told));
            }
        }
    });
}

/// As RFC 9110 lets a proxy combine the lines of a field.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Vec<u8> {
    let lines = headers.get_all(name).iter();
    let lines: Vec<_> = lines.map(|line| line.as_bytes()).collect();
    lines.join(&b", "[..])
}

#[test]
fn the_lines_of_two_layers_are_one_list_of_both() {
    let mut random = Rng::with_seed(7);
    for _ in 0..2_000 {
        let [inner, outer] = [decision(&mut random), decision(&mut random)];
        let mut headers = HeaderMap::new();
        Http::new().add_fields(&inner, &mut headers);
        Http::new().add_fields(&outer, &mut headers);
        for name in [POLICY, RATE_LIMIT] {
            let each = lines::<List>(&headers, &name);
            assert_eq!(each.len(), 2);
            assert_eq!(read::<List>(&joined(&headers, &name)), each.concat());
        }
    }
}

#[test]
fn draft_7_is_a_dictionary_of_three_integers_and_a_list_of_quotas() {
    each_of_many(|decision| {
        for headers in told(Fields::Draft7, decision) {
            let [ref dictionary] = lines::<Dictionary>(&headers, &RATE_LIMIT)[..] else {
                panic!("one line of {headers:?}")
            };
            let names: Vec<_> = dictionary.keys().map(|name| name.as_str()).collect();
            assert_eq!(names, ["limit", "remaining", "reset"]);
            let number = |name: &str| integer(&item(dictionary[name].clone()).bare_item);
            assert_eq!(number("limit"), clamped(decision.limit()));
            assert_eq!(number("remaining"), clamped(decision.remaining()));
            number("reset");
            quotas(decision, &headers);
        }
    });
}

/// The list of quotas in drafts 06 and 07: those with a window that can be told.
fn quotas(decision: &Decision, headers: &HeaderMap) {
    let tellable = decision.policies().iter();
    let tellable = tellable.filter(|policy| policy.window() >= Duration::from_secs(1));
    let members = members(headers, &POLICY);
    assert_eq!(members.len(), tellable.clone().count());
    for (item, policy) in members.iter().zip(tellable) {
        assert_eq!(integer(&item.bare_item), clamped(policy.limit()));
        let window = parameter(&item.params, "w");
        assert_eq!(window, Some(rounded_up(policy.window())));
        assert_eq!(item.params.len(), 1);
    }
}

#[test]
fn draft_6_and_the_legacy_fields_are_three_integers() {
    for (fields, prefix) in [
        (Fields::Draft6, "ratelimit"),
        (Fields::XRateLimit, "x-ratelimit"),
    ] {
        each_of_many(|decision| {
            for headers in told(fields, decision) {
                let number = |name: &str| {
                    let line = &headers[&format!("{prefix}-{name}")];
                    let item: Item = Parser::new(line).parse().unwrap();
                    assert_eq!(item.serialize().as_bytes(), line.as_bytes());
                    assert!(item.params.is_empty());
                    integer(&item.bare_item)
                };
                assert_eq!(number("limit"), clamped(decision.limit()));
                assert_eq!(number("remaining"), clamped(decision.remaining()));
                number("reset");
                if fields == Fields::Draft6 {
                    quotas(decision, &headers);
                }
            }
        });
    }
}
