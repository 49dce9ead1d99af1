//! The names of policies on the wire: every character that a name may have, and tuples of any
//! length.

use std::time::Duration;

use http::HeaderMap;
use sfv::{FieldType, List, ListEntry, Parser};
use tollgate::{
    Decision, PolicyDecision,
    algorithm::{Policy, Status},
    response::Http,
};

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

fn policy(name: &str) -> PolicyDecision {
    let policy = Policy::new("any", &[1], Duration::from_secs(1));
    let policy = policy.named(name).expect("its characters are allowed");
    PolicyDecision::new(&policy, Status::of(1, 0, 1, true, |_| Some(1_000_000)))
}

/// The names as another's parser reads them in both fields, which it writes again to the same
/// bytes.
fn names_told(decision: &Decision) -> [Vec<String>; 2] {
    let mut headers = HeaderMap::new();
    Http::new().add_fields(decision, &mut headers);
    ["ratelimit-policy", "ratelimit"].map(|field| {
        let line = headers[field].to_str().unwrap();
        let list: List = Parser::new(line).parse().unwrap();
        assert_eq!(list.serialize().as_deref(), Some(line));
        let names = list.iter().map(|entry| match entry {
            ListEntry::Item(item) => item.bare_item.as_string().unwrap().as_str().to_owned(),
            ListEntry::InnerList(_) => panic!("{line}"),
        });
        names.collect()
    })
}

#[test]
fn every_character_that_a_name_may_have_is_told_as_it_is_and_no_other_is_allowed() {
    for character in (0..=0xFF_u8).map(char::from) {
        let name = format!("x{character}");
        let allowed = character.is_ascii_alphanumeric() || "_.-".contains(character);
        let named = Policy::new("any", &[1], Duration::from_secs(1)).named(&name);
        assert_eq!(named.is_ok(), allowed, "{name:?}");
        if allowed {
            let told = names_told(&Decision::of_one(policy(&name)));
            assert_eq!(told, [[name.as_str()], [name.as_str()]]);
        }
    }
}

#[test]
fn a_tuple_of_any_length_with_names_of_any_length_is_told_whole_and_in_order() {
    for members in 1..=8 {
        for length in [1, 23, 24, 64] {
            let names: Vec<String> = (0..members)
                .map(|member| LETTERS[member..=member].repeat(length))
                .collect();
            let policies = names.iter().map(|name| policy(name)).collect();
            let told = names_told(&Decision::of_all(policies));
            assert_eq!(told, [names.clone(), names]);
        }
    }
}
