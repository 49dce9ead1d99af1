//! The fields of draft-ietf-httpapi-ratelimit-headers-11: lists of strings with parameters (RFC
//! 9651).

use http::HeaderValue;

use crate::{
    decision::{Decision, PolicyDecision},
    response::{
        fields::{MAX_INTEGER, window_seconds},
        set_field::ascii,
    },
};

/// `"api";q=40;w=2, "daily";q=1000;w=86400`
pub(super) fn policies(decision: &Decision) -> HeaderValue {
    list(decision.policies().iter().map(|policy| {
        let window = window_seconds(policy).map(|seconds| (";w=", seconds));
        let mut item = item(policy, ("\";q=", policy.limit()), window);
        if policy.counts_in_flight() {
            item.push_str(r#";qu="concurrent-requests""#);
        }
        item
    }))
}

/// `"api";r=39;t=1, "daily";r=999;t=87`; on a refusal only the policies that refuse.
pub(super) fn rates(decision: &Decision) -> HeaderValue {
    let policies = decision.policies().iter();
    let listed = policies.filter(|policy| decision.is_admitted() || !policy.is_admitted());
    list(listed.map(|policy| {
        let status = policy.status();
        let seconds = status.replenished_after_micros.div_ceil(1_000_000);
        let wait = (seconds > 0).then_some((";t=", seconds));
        item(policy, ("\";r=", status.remaining), wait)
    }))
}

fn list(mut items: impl Iterator<Item = String>) -> HeaderValue {
    let mut line = items.next().unwrap_or_default();
    for item in items {
        line.push_str(", ");
        line.push_str(&item);
    }
    ascii(line)
}

/// A policy with one or two parameters. The key of the first one begins with the closing quote of
/// the name. The name needs no escape: see [`Policy::name`](crate::algorithm::Policy::name).
///
/// For speed it uses `itoa`, and one allocation of the exact size. A decision through the layer
/// takes 170 ns with these fields; `write!` takes 30 ns more for each item, and `concat` 7 ns
/// (`middleware` of `benches/peers`, fields on).
fn item(
    policy: &PolicyDecision,
    (key, number): (&str, u64),
    seconds: Option<(&str, u64)>,
) -> String {
    let mut digits = [itoa::Buffer::new(), itoa::Buffer::new()];
    let [of_number, of_seconds] = &mut digits;
    let number = of_number.format(number.min(MAX_INTEGER));
    let [seconds_key, seconds] = match seconds {
        Some((key, seconds)) => [key, of_seconds.format(seconds)],
        None => ["", ""],
    };
    let name = policy.policy();
    let length = 1 + name.len() + key.len() + number.len() + seconds_key.len() + seconds.len();
    let mut item = String::with_capacity(length);
    item.push('"');
    item.push_str(name);
    item.push_str(key);
    item.push_str(number);
    item.push_str(seconds_key);
    item.push_str(seconds);
    item
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        algorithm::Judgement,
        response::tests::{SECOND, admitted, admitted_with, both},
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
    fn sent(decision: &Decision) -> [String; 2] {
        [policies(decision), rates(decision)].map(|line| line.to_str().unwrap().to_owned())
    }

    #[test]
    fn draft_11_says_what_the_policy_is_and_what_is_left() {
        let lines = [r#""api";q=40;w=2"#, r#""api";r=39;t=1"#];
        assert_eq!(sent(&admitted()), lines);
    }

    #[test]
    fn every_field_of_draft_11_is_a_strict_structured_field() {
        let extremes = [0, 1, 999_999_999_999_999, 1_000_000_000_000_000, u64::MAX];
        let spans =
            [0, 1, 999_999, 1_000_000, 1_000_001, u64::MAX / 10_000].map(Duration::from_micros);
        for number in extremes {
            for span in spans {
                for line in sent(&admitted_with(number, span, number, span)) {
                    assert_eq!(read_and_write_again(&line), line);
                }
            }
        }
    }

    #[test]
    fn a_window_below_a_second_is_left_out_and_any_other_is_rounded_up() {
        for (window, parameter) in [
            (0, ""),
            (1, ""),
            (999, ""),
            (1_000, ";w=1"),
            (1_001, ";w=2"),
        ] {
            let decision = admitted_with(5, Duration::from_millis(window), 4, SECOND);
            let lines = sent(&decision);
            assert_eq!(lines[0], format!("\"p\";q=5{parameter}"));
        }
    }

    #[test]
    fn a_full_bucket_has_no_time_parameter() {
        let decision = admitted_with(5, SECOND, 5, Duration::ZERO);
        assert_eq!(sent(&decision)[1], r#""p";r=5"#);
    }

    #[test]
    fn every_policy_of_an_admitted_tuple_is_listed() {
        let lines = sent(&both(Judgement::Admitted, Judgement::Admitted));
        assert_eq!(lines[0], r#""api";q=40;w=2, "daily";q=1000;w=86400"#);
        assert_eq!(lines[1], r#""api";r=7;t=1, "daily";r=7;t=87"#);
    }

    #[test]
    fn a_refusal_lists_all_policies_but_only_what_is_left_of_the_violated_ones() {
        let refused = Judgement::RefusedForMicros(87_000_000);
        let all = r#""api";q=40;w=2, "daily";q=1000;w=86400"#;
        let lines = sent(&both(Judgement::Admitted, refused));
        assert_eq!([&*lines[0], &*lines[1]], [all, r#""daily";r=0;t=87"#]);
        let lines = sent(&both(refused, refused));
        let left = r#""api";r=0;t=1, "daily";r=0;t=87"#;
        assert_eq!([&*lines[0], &*lines[1]], [all, left]);
    }
}
