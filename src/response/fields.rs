//! The rate-limit fields of a response, in the dialect that was chosen.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{line::Line, retry_after::whole_seconds};
use crate::decision::{Decision, PolicyDecision};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const DRAFT_6: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const LARGEST: u64 = 999_999_999_999_999;

/// Which fields tell a caller about its limits, on responses to admitted and refused requests alike.
///
/// Every number of seconds is rounded up, and is a number of seconds *from now*: none is a time of day.
/// A number of more than 15 digits is sent as 999 999 999 999 999. A browser's script reads these fields only if
/// the response also has `Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After`, which is for
/// the CORS layer to say.
///
/// # Example: one answer in two dialects
///
/// ```
/// # use std::time::Duration;
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Outcome, Policy, Standing}};
/// use tollgate::response::{Fields, Http};
///
/// # let policy = Policy::new("token-bucket", &[40], Duration::from_secs(2)).named("api").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Standing {
/// #     remaining: 39, outcome: Outcome::Admitted, replenished_after_micros: 50_000,
/// #     reset_after_micros: 50_000, delay_micros: 0,
/// # }));
/// let mut headers = http::HeaderMap::new();
/// Http::new().add_fields(&decision, &mut headers);
/// assert_eq!(headers["RateLimit-Policy"], r#""api";q=40;w=2"#);
/// assert_eq!(headers["RateLimit"], r#""api";r=39;t=1"#);
///
/// let mut headers = http::HeaderMap::new();
/// Http::new().fields(Fields::XRateLimit).add_fields(&decision, &mut headers);
/// assert_eq!(headers["X-RateLimit-Remaining"], "39");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Fields {
    /// `RateLimit-Policy: "api";q=40;w=2` and `RateLimit: "api";r=39;t=1`, the structured form of
    /// draft-ietf-httpapi-ratelimit-headers-11 (the same bytes since draft 08).
    ///
    /// `q` is the most at once, `w` the seconds to win it back (left out below one second, which the draft cannot
    /// say); `r` is what is left, `t` the seconds until it is more (left out if nothing is missing). A tuple of
    /// algorithms has a member for each policy; on a refusal `RateLimit` has only those that refuse. Lines that an
    /// inner layer wrote are kept before these.
    #[default]
    Draft11,
    /// `RateLimit: limit=40, remaining=39, reset=1` and `RateLimit-Policy: 40;w=2`, as in draft 07.
    ///
    /// It speaks of the [binding](Decision::policy) policy; `reset` is the seconds until all is won back, on a
    /// refusal those of `Retry-After`. If an inner layer has told of less remaining, that is left as it is.
    /// A policy with a window below one second is not listed.
    Draft7,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` and `RateLimit-Policy: 40;w=2`, as in
    /// draft 06; otherwise like [`Draft7`](Self::Draft7).
    Draft6,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, as many APIs have them; otherwise
    /// like [`Draft7`](Self::Draft7).
    ///
    /// Peers differ in what `X-RateLimit-Reset` counts (GitHub sends a Unix time, Envoy seconds from now); here it
    /// is **seconds from now**, which a caller can use whose clock is wrong.
    XRateLimit,
    /// None of them. `Retry-After` is not one of them: a refusal has it still.
    Off,
}

impl Fields {
    /// Adds the fields to those of a response; [`Fields::Draft11`] never takes one away.
    pub(super) fn add(self, decision: &Decision, headers: &mut HeaderMap) {
        match self {
            Self::Draft11 => {
                headers.append(POLICY, policies_of_draft_11(decision));
                if let Some(rates) = rates_of_draft_11(decision) {
                    headers.append(RATE_LIMIT, rates);
                }
            }
            Self::Draft7 => {
                append_policies_of_draft_7(decision, headers);
                if is_tightest(decision, headers.get(RATE_LIMIT).map(remaining_of_draft_7)) {
                    headers.insert(RATE_LIMIT, rate_of_draft_7(decision));
                }
            }
            Self::Draft6 => {
                append_policies_of_draft_7(decision, headers);
                set_three(&DRAFT_6, decision, headers);
            }
            Self::XRateLimit => set_three(&LEGACY, decision, headers),
            Self::Off => {}
        }
    }

    /// Adds the fields, unless one of the same name is there: then the renderer has written its own.
    pub(super) fn add_unless_rendered(self, decision: &Decision, headers: &mut HeaderMap) {
        let names: &[HeaderName] = match self {
            Self::Draft11 | Self::Draft7 => &[RATE_LIMIT, POLICY],
            Self::Draft6 => &DRAFT_6,
            Self::XRateLimit => &LEGACY,
            Self::Off => &[],
        };
        if !names.iter().any(|name| headers.contains_key(name)) {
            self.add(decision, headers);
        }
    }
}

/// `"api";q=40;w=2, "daily";q=1000;w=86400`
fn policies_of_draft_11(decision: &Decision) -> HeaderValue {
    let mut line = Line::new();
    for policy in decision.policies() {
        line.separate();
        line.name(policy.policy());
        line.text(";q=");
        line.number(policy.limit().min(LARGEST));
        if let Some(seconds) = window_seconds(policy) {
            line.text(";w=");
            line.number(seconds);
        }
    }
    line.into_value()
}

/// `"api";r=39;t=1, "daily";r=999;t=87`
fn rates_of_draft_11(decision: &Decision) -> Option<HeaderValue> {
    let mut line = Line::new();
    for policy in decision.policies() {
        if policy.is_admitted() && !decision.is_admitted() {
            continue;
        }
        line.separate();
        line.name(policy.policy());
        line.text(";r=");
        line.number(policy.remaining().min(LARGEST));
        let seconds = whole_seconds(policy.replenished_after());
        if seconds > 0 {
            line.text(";t=");
            line.number(seconds);
        }
    }
    (!line.is_empty()).then(|| line.into_value())
}

/// `40;w=2, 1000;w=86400`; these drafts know no policy without a window.
fn append_policies_of_draft_7(decision: &Decision, headers: &mut HeaderMap) {
    let mut line = Line::new();
    for policy in decision.policies() {
        if let Some(seconds) = window_seconds(policy) {
            line.separate();
            line.number(policy.limit().min(LARGEST));
            line.text(";w=");
            line.number(seconds);
        }
    }
    if !line.is_empty() {
        headers.append(POLICY, line.into_value());
    }
}

/// `limit=40, remaining=39, reset=1`
fn rate_of_draft_7(decision: &Decision) -> HeaderValue {
    let [limit, remaining, reset] = three_numbers(decision);
    let mut line = Line::new();
    line.text("limit=");
    line.number(limit);
    line.text(", remaining=");
    line.number(remaining);
    line.text(", reset=");
    line.number(reset);
    line.into_value()
}

fn set_three(names: &[HeaderName; 3], decision: &Decision, headers: &mut HeaderMap) {
    let told = headers.get(&names[1]);
    if is_tightest(
        decision,
        told.map(|value| value.to_str().ok()?.parse().ok()),
    ) {
        for (name, number) in names.iter().zip(three_numbers(decision)) {
            headers.insert(name, HeaderValue::from(number));
        }
    }
}

/// Limit, remaining and reset of the binding policy.
fn three_numbers(decision: &Decision) -> [u64; 3] {
    // Where both are sent, `Retry-After` and the reset should be the same moment (drafts 03 to 07).
    let reset = decision.retry_after().unwrap_or(decision.reset_after());
    [
        decision.limit().min(LARGEST),
        decision.remaining().min(LARGEST),
        whole_seconds(reset),
    ]
}

/// Whether what is told already leaves more than this decision does. What cannot be read is left alone.
fn is_tightest(decision: &Decision, told: Option<Option<u64>>) -> bool {
    match told {
        None => true,
        Some(remaining) => remaining.is_some_and(|told| decision.remaining() < told),
    }
}

fn remaining_of_draft_7(value: &HeaderValue) -> Option<u64> {
    let mut members = value.to_str().ok()?.split(',');
    members.find_map(|member| member.trim().strip_prefix("remaining=")?.parse().ok())
}

/// The window in seconds, if it has any: less than one cannot be said.
fn window_seconds(policy: &PolicyDecision) -> Option<u64> {
    let window = policy.window();
    (window.as_secs() > 0).then(|| whole_seconds(window))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        algorithm::Outcome,
        response::sample::{API, SECOND, admitted, both, hopeless, policy, refused_for},
    };

    fn told(fields: Fields, decision: &Decision) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        fields.add(decision, &mut headers);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let told = headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)));
        told.collect()
    }

    /// One decision that is of this limit and window, and has so much left for so long.
    fn standing(limit: u64, window: Duration, remaining: u64, more_after: Duration) -> Decision {
        let policy = policy(
            ("p", limit, window),
            remaining,
            more_after,
            Outcome::Admitted,
        );
        Decision::of_one(policy)
    }

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

    #[test]
    fn draft_11_says_what_the_policy_is_and_what_is_left() {
        let lines = [
            (
                "ratelimit-policy".to_owned(),
                r#""api";q=40;w=2"#.to_owned(),
            ),
            ("ratelimit".to_owned(), r#""api";r=39;t=1"#.to_owned()),
        ];
        assert_eq!(told(Fields::Draft11, &admitted()), lines);
    }

    #[test]
    fn every_field_of_draft_11_is_a_strict_structured_field() {
        let extremes = [0, 1, 999_999_999_999_999, 1_000_000_000_000_000, u64::MAX];
        let spans =
            [0, 1, 999_999, 1_000_000, 1_000_001, u64::MAX / 10_000].map(Duration::from_micros);
        for number in extremes {
            for span in spans {
                for line in told(Fields::Draft11, &standing(number, span, number, span)) {
                    assert_eq!(read_and_write_again(&line.1), line.1);
                }
            }
        }
    }

    #[test]
    fn a_number_that_no_structured_field_can_hold_is_clamped_to_fifteen_digits() {
        let decision = standing(u64::MAX, SECOND, u64::MAX, SECOND);
        for fields in [
            Fields::Draft11,
            Fields::Draft7,
            Fields::Draft6,
            Fields::XRateLimit,
        ] {
            for (_, line) in told(fields, &decision) {
                let digits = line.split(|character: char| !character.is_ascii_digit());
                assert!(digits.clone().all(|digits| digits.len() <= 15), "{line}");
            }
        }
        let lines = told(Fields::Draft11, &decision);
        assert_eq!(lines[0].1, r#""p";q=999999999999999;w=1"#);
        assert_eq!(lines[1].1, r#""p";r=999999999999999;t=1"#);
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
            let lines = told(Fields::Draft11, &decision);
            assert_eq!(lines[0].1, format!("\"p\";q=5{parameter}"));
        }
    }

    #[test]
    fn where_nothing_is_missing_no_time_is_told() {
        let decision = standing(5, SECOND, 5, Duration::ZERO);
        assert_eq!(told(Fields::Draft11, &decision)[1].1, r#""p";r=5"#);
    }

    #[test]
    fn every_policy_of_an_admitted_tuple_is_told() {
        let lines = told(Fields::Draft11, &both(Outcome::Admitted, Outcome::Admitted));
        assert_eq!(lines[0].1, r#""api";q=40;w=2, "daily";q=1000;w=86400"#);
        assert_eq!(lines[1].1, r#""api";r=7;t=1, "daily";r=7;t=87"#);
    }

    #[test]
    fn a_refusal_lists_all_policies_but_only_what_is_left_of_the_violated_ones() {
        let refused = Outcome::RefusedForMicros(87_000_000);
        let all = r#""api";q=40;w=2, "daily";q=1000;w=86400"#;
        let lines = told(Fields::Draft11, &both(Outcome::Admitted, refused));
        assert_eq!([&*lines[0].1, &*lines[1].1], [all, r#""daily";r=0;t=87"#]);
        let lines = told(Fields::Draft11, &both(refused, refused));
        let left = r#""api";r=0;t=1, "daily";r=0;t=87"#;
        assert_eq!([&*lines[0].1, &*lines[1].1], [all, left]);
    }

    #[test]
    fn the_lines_of_an_inner_layer_are_kept_before_ours() {
        let mut headers = HeaderMap::new();
        headers.insert(POLICY, HeaderValue::from_static("\"inner\";q=1"));
        headers.insert(RATE_LIMIT, HeaderValue::from_static("\"inner\";r=0"));
        Fields::Draft11.add(&admitted(), &mut headers);
        let lines = |name| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(lines(POLICY), ["\"inner\";q=1", r#""api";q=40;w=2"#]);
        assert_eq!(lines(RATE_LIMIT), ["\"inner\";r=0", r#""api";r=39;t=1"#]);
    }

    #[test]
    fn draft_7_is_a_dictionary_of_the_binding_policy() {
        let lines = told(Fields::Draft7, &both(Outcome::Admitted, Outcome::Admitted));
        assert_eq!(
            lines[0],
            ("ratelimit-policy".into(), "40;w=2, 1000;w=86400".into())
        );
        assert_eq!(
            lines[1],
            (
                "ratelimit".into(),
                "limit=40, remaining=7, reset=86391".into()
            )
        );
        let below_a_second = standing(5, SECOND / 2, 4, SECOND);
        let lines = told(Fields::Draft7, &below_a_second);
        assert_eq!(
            lines,
            [("ratelimit".into(), "limit=5, remaining=4, reset=1".into())]
        );
    }

    #[test]
    fn draft_6_has_a_field_for_each_number() {
        let expected = [
            ("ratelimit-policy", "40;w=2"),
            ("ratelimit-limit", "40"),
            ("ratelimit-remaining", "39"),
            ("ratelimit-reset", "1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(told(Fields::Draft6, &admitted()), expected);
    }

    #[test]
    fn the_reset_is_in_seconds_from_now_and_on_a_refusal_that_of_retry_after() {
        let lines = told(
            Fields::XRateLimit,
            &refused_for(Duration::from_millis(2_100)),
        );
        let expected = [
            ("x-ratelimit-limit", "40"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "3"),
        ];
        assert_eq!(
            lines,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let lines = told(Fields::XRateLimit, &hopeless());
        assert_eq!(lines[2].1, "1");
    }

    #[test]
    fn of_two_layers_the_single_valued_dialects_tell_the_tighter_one() {
        let left = |remaining| Decision::of_one(policy(API, remaining, SECOND, Outcome::Admitted));
        for (fields, name) in [
            (Fields::Draft7, "ratelimit"),
            (Fields::Draft6, "ratelimit-remaining"),
            (Fields::XRateLimit, "x-ratelimit-remaining"),
        ] {
            for [inner, outer] in [[3, 5], [5, 3]] {
                let mut headers = HeaderMap::new();
                fields.add(&left(inner), &mut headers);
                fields.add(&left(outer), &mut headers);
                assert_eq!(headers.get_all(name).iter().count(), 1);
                let told = headers[name].to_str().unwrap();
                assert!(
                    told == "3" || told.contains("remaining=3"),
                    "{name}: {told}"
                );
            }
        }
    }

    #[test]
    fn fields_that_are_off_leave_the_response_as_it_is() {
        assert_eq!(told(Fields::Off, &admitted()), []);
    }
}
