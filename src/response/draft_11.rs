//! The fields of draft-ietf-httpapi-ratelimit-headers-11: lists of strings with parameters (RFC 9651).

use http::HeaderValue;

use super::{
    fields::{LARGEST, window_seconds},
    line::{Line, number_len, string_len},
    retry_after::whole_seconds,
};
use crate::decision::{Decision, PolicyDecision};

/// `"api";q=40;w=2, "daily";q=1000;w=86400`
pub(super) fn policies(decision: &Decision) -> HeaderValue {
    let numbers = |policy: &PolicyDecision| (policy.limit().min(LARGEST), window_seconds(policy));
    list(decision, [b";q=", b";w="], |_| true, numbers)
}

/// `"api";r=39;t=1, "daily";r=999;t=87`
pub(super) fn rates(decision: &Decision) -> HeaderValue {
    let told = |policy: &PolicyDecision| decision.is_admitted() || !policy.is_admitted();
    let numbers = |policy: &PolicyDecision| {
        let seconds = whole_seconds(policy.replenished_after());
        (
            policy.remaining().min(LARGEST),
            (seconds > 0).then_some(seconds),
        )
    };
    list(decision, [b";r=", b";t="], told, numbers)
}

/// A list of the policies that are told, each with one parameter or two.
#[inline]
fn list(
    decision: &Decision,
    [first, second]: [&[u8; 3]; 2],
    told: impl Fn(&PolicyDecision) -> bool,
    numbers: impl Fn(&PolicyDecision) -> (u64, Option<u64>),
) -> HeaderValue {
    let members = || decision.policies().iter().filter(|policy| told(policy));
    let len = |policy: &PolicyDecision| {
        let (number, seconds) = numbers(policy);
        let seconds = seconds.map_or(0, |seconds| second.len() + number_len(seconds));
        string_len(policy.policy()) + first.len() + number_len(number) + seconds
    };
    let separated = |policy: &PolicyDecision| ", ".len() + len(policy);
    let mut line = Line::of_len(members().map(separated).sum::<usize>().saturating_sub(2));
    for policy in members() {
        let (number, seconds) = numbers(policy);
        line.separate();
        line.string(policy.policy());
        line.text(first);
        line.number(number);
        if let Some(seconds) = seconds {
            line.text(second);
            line.number(seconds);
        }
    }
    line.into_value()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        algorithm::Outcome,
        response::sample::{SECOND, admitted, both, standing},
    };

    /// Reads a list of strings with integer parameters as strictly as RFC 9651 allows, and writes it again.
    fn read_and_write_again(line: &str) -> String {
        let integer = |text: &str| {
            assert!(
                text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit()),
                "{text}"
            );
            text.parse::<u64>().unwrap()
        };
        let members = line.split(", ").map(|member| {
            let (name, parameters) = member.strip_prefix('"').unwrap().split_once('"').unwrap();
            assert!(
                name.bytes()
                    .all(|byte| matches!(byte, b' '..=b'~') && byte != b'\\')
            );
            let parameters = parameters
                .strip_prefix(';')
                .unwrap()
                .split(';')
                .map(|parameter| {
                    let (key, value) = parameter.split_once('=').unwrap();
                    assert!(["q", "w", "r", "t"].contains(&key), "{key}");
                    assert!(key != "w" || integer(value) >= 1);
                    format!(";{key}={}", integer(value))
                });
            format!("\"{name}\"{}", parameters.collect::<String>())
        });
        members.collect::<Vec<_>>().join(", ")
    }

    /// `RateLimit-Policy` and `RateLimit`.
    fn told(decision: &Decision) -> [String; 2] {
        [policies(decision), rates(decision)].map(|line| line.to_str().unwrap().to_owned())
    }

    #[test]
    fn draft_11_says_what_the_policy_is_and_what_is_left() {
        let lines = [r#""api";q=40;w=2"#, r#""api";r=39;t=1"#];
        assert_eq!(told(&admitted()), lines);
    }

    #[test]
    fn every_field_of_draft_11_is_a_strict_structured_field() {
        let extremes = [0, 1, 999_999_999_999_999, 1_000_000_000_000_000, u64::MAX];
        let spans =
            [0, 1, 999_999, 1_000_000, 1_000_001, u64::MAX / 10_000].map(Duration::from_micros);
        for number in extremes {
            for span in spans {
                for line in told(&standing(number, span, number, span)) {
                    assert_eq!(read_and_write_again(&line), line);
                }
            }
        }
    }

    #[test]
    fn a_window_below_a_second_is_not_told_and_any_other_is_rounded_up() {
        for (window, parameter) in [
            (0, ""),
            (1, ""),
            (999, ""),
            (1_000, ";w=1"),
            (1_001, ";w=2"),
        ] {
            let decision = standing(5, Duration::from_millis(window), 4, SECOND);
            let lines = told(&decision);
            assert_eq!(lines[0], format!("\"p\";q=5{parameter}"));
        }
    }

    #[test]
    fn where_nothing_is_missing_no_time_is_told() {
        let decision = standing(5, SECOND, 5, Duration::ZERO);
        assert_eq!(told(&decision)[1], r#""p";r=5"#);
    }

    #[test]
    fn every_policy_of_an_admitted_tuple_is_told() {
        let lines = told(&both(Outcome::Admitted, Outcome::Admitted));
        assert_eq!(lines[0], r#""api";q=40;w=2, "daily";q=1000;w=86400"#);
        assert_eq!(lines[1], r#""api";r=7;t=1, "daily";r=7;t=87"#);
    }

    #[test]
    fn a_refusal_lists_all_policies_but_only_what_is_left_of_the_violated_ones() {
        let refused = Outcome::RefusedForMicros(87_000_000);
        let all = r#""api";q=40;w=2, "daily";q=1000;w=86400"#;
        let lines = told(&both(Outcome::Admitted, refused));
        assert_eq!([&*lines[0], &*lines[1]], [all, r#""daily";r=0;t=87"#]);
        let lines = told(&both(refused, refused));
        let left = r#""api";r=0;t=1, "daily";r=0;t=87"#;
        assert_eq!([&*lines[0], &*lines[1]], [all, left]);
    }
}
