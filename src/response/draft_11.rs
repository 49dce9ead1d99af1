//! The fields of draft-ietf-httpapi-ratelimit-headers-11: lists of strings with parameters (RFC
//! 9651).

use http::HeaderValue;

use super::{
    fields::{LARGEST, window_seconds},
    line::{Line, number_len, string_len},
};
use crate::decision::{Decision, PolicyDecision};

/// `"api";q=40;w=2, "daily";q=1000;w=86400`
pub(super) fn policies(decision: &Decision) -> HeaderValue {
    list(decision.policies().iter(), |policy| Member {
        policy,
        parameters: [b";q=", b";w="],
        number: policy.limit().min(LARGEST),
        seconds: window_seconds(policy),
    })
    .into_value()
}

/// Whether a line has a member for the policy of this name.
pub(super) fn tells_of(line: &HeaderValue, name: &str) -> bool {
    let mut members = line.as_bytes().split(|&byte| byte == b',');
    members.any(|member| {
        let member = member.trim_ascii_start().strip_prefix(b"\"");
        let rest = member.and_then(|member| member.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\""))
    })
}

/// `"api";r=39;t=1, "daily";r=999;t=87`
pub(super) fn rates(decision: &Decision) -> HeaderValue {
    let member = |policy| Member::of_what_is_left(policy);
    if let [policy] = decision.policies() {
        // Its numbers are worked out once.
        let member = member(policy);
        let mut line = Line::of_len(member.len());
        member.write_to(&mut line);
        return line.into_value();
    }
    let policies = decision.policies().iter();
    let told = policies.filter(|policy| decision.is_admitted() || !policy.is_admitted());
    list(told, member).into_value()
}

/// A list of policies.
fn list<'a>(
    policies: impl Iterator<Item = &'a PolicyDecision> + Clone,
    member: impl Fn(&'a PolicyDecision) -> Member<'a>,
) -> Line {
    let lens = policies
        .clone()
        .map(|policy| ", ".len() + member(policy).len());
    let mut line = Line::of_len(lens.sum::<usize>().saturating_sub(2));
    for policy in policies {
        line.separate();
        member(policy).write_to(&mut line);
    }
    line
}

/// A policy with a parameter or two.
struct Member<'a> {
    policy: &'a PolicyDecision,
    parameters: [&'static [u8; 3]; 2],
    number: u64,
    seconds: Option<u64>,
}

impl<'a> Member<'a> {
    #[inline]
    fn of_what_is_left(policy: &'a PolicyDecision) -> Self {
        let (remaining, replenished_after_micros) = policy.left();
        let seconds = replenished_after_micros.div_ceil(1_000_000);
        Self {
            policy,
            parameters: [b";r=", b";t="],
            number: remaining.min(LARGEST),
            seconds: (seconds > 0).then_some(seconds),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        let [first, second] = self.parameters;
        let seconds = self
            .seconds
            .map_or(0, |seconds| second.len() + number_len(seconds));
        string_len(self.policy.policy()) + first.len() + number_len(self.number) + seconds
    }

    #[inline]
    fn write_to(&self, line: &mut Line) {
        let [first, second] = self.parameters;
        line.string(self.policy.policy());
        line.text(first);
        line.number(self.number);
        if let Some(seconds) = self.seconds {
            line.text(second);
            line.number(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        algorithm::Outcome,
        response::sample::{SECOND, admitted, both, hopeless, standing},
    };

    /// Reads a list of strings with integer parameters as strictly as RFC 9651 allows, and writes
    /// it again.
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
    fn a_line_tells_of_the_policies_whose_whole_names_are_in_it() {
        let line = policies(&both(Outcome::Admitted, Outcome::Admitted));
        assert!(tells_of(&line, "api") && tells_of(&line, "daily"));
        for other in ["", "ap", "apis", "aily", "q", "q=40", ";q=40"] {
            assert!(!tells_of(&line, other), "{other}");
        }
        for odd in ["", ",", "\"", "\"api", "api", "40;w=2", "\"x\";y=\"api\""] {
            let line = HeaderValue::from_static(odd);
            assert!(!tells_of(&line, "api"), "{odd}");
        }
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

    #[test]
    fn a_list_is_written_into_memory_of_its_size() {
        let both = both(Outcome::Admitted, Outcome::RefusedForMicros(87_000_000));
        for decision in [admitted(), both, hopeless()] {
            let policies = || decision.policies().iter();
            assert!(list(policies(), Member::of_what_is_left).is_as_long_as_was_said());
        }
    }
}
