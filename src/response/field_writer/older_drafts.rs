//! The fields before draft 08, and `X-RateLimit-*`: one number each, of the binding policy.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    decision::{Decision, PolicyDecision},
    response::{
        fields::{MAX_INTEGER, POLICY, RATE_LIMIT, window_seconds},
        retry_after::whole_seconds,
        set_field::{ascii, set},
    },
};

/// Sets `RateLimit`, unless an inner layer's has less left, and appends to `RateLimit-Policy`.
pub(super) fn set_dictionary(decision: &Decision, headers: &mut HeaderMap) {
    append_policies(decision, headers);
    let other = headers.get(RATE_LIMIT);
    if is_tighter(decision, other.map(remaining_of_dictionary)) {
        let [limit, remaining, reset] = three_numbers(decision);
        let line = format!("limit={limit}, remaining={remaining}, reset={reset}");
        set(headers, RATE_LIMIT, ascii(line));
    }
}

/// `40;w=2, 1000;w=86400`; in these drafts every policy has a window.
pub(super) fn append_policies(decision: &Decision, headers: &mut HeaderMap) {
    let item = |policy: &PolicyDecision| {
        let seconds = window_seconds(policy)?;
        Some(format!("{};w={seconds}", policy.limit().min(MAX_INTEGER)))
    };
    let items: Vec<_> = decision.policies().iter().filter_map(item).collect();
    if !items.is_empty() {
        let _ = headers.try_append(POLICY, ascii(items.join(", ")));
    }
}

/// Sets the fields of the first three of these names to limit, remaining and reset, unless an inner
/// layer's have no more left.
pub(super) fn set_three(names: &[HeaderName], decision: &Decision, headers: &mut HeaderMap) {
    let other = headers.get(&names[1]);
    let remaining = |value: &HeaderValue| value.to_str().ok()?.parse().ok();
    if is_tighter(decision, other.map(remaining)) {
        for (name, number) in names.iter().zip(three_numbers(decision)) {
            set(headers, name.clone(), HeaderValue::from(number));
        }
    }
}

/// The limit and reset of the binding policy, and the least `remaining` of all.
fn three_numbers(decision: &Decision) -> [u64; 3] {
    // `Retry-After` and the reset should be the same moment if both are sent (drafts 03 to 07).
    let reset = |policy: &PolicyDecision| policy.retry_after().unwrap_or(policy.reset_after());
    [
        decision.limit().min(MAX_INTEGER),
        decision.remaining().min(MAX_INTEGER),
        whole_seconds(decision.binding().map_or(Duration::ZERO, reset)),
    ]
}

/// Whether this decision has less left than an inner layer has sent. A field that cannot be read is
/// kept.
fn is_tighter(decision: &Decision, sent: Option<Option<u64>>) -> bool {
    match sent {
        None => true,
        Some(remaining) => remaining.is_some_and(|sent| decision.remaining() < sent),
    }
}

fn remaining_of_dictionary(value: &HeaderValue) -> Option<u64> {
    let mut members = value.to_str().ok()?.split(',');
    members.find_map(|member| member.trim().strip_prefix("remaining=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        algorithm::Judgement,
        response::{
            Fields,
            field_writer::FieldWriter,
            tests::{API, SECOND, admitted, admitted_with, both, hopeless, policy, refused_for},
        },
    };

    fn sent(fields: Fields, decision: &Decision) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        FieldWriter::new(fields).add(decision, &mut headers);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let sent = headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)));
        sent.collect()
    }

    #[test]
    fn draft_7_is_a_dictionary_of_the_binding_policy() {
        let lines = sent(
            Fields::Draft7,
            &both(Judgement::Admitted, Judgement::Admitted),
        );
        assert_eq!(
            lines[0],
            ("ratelimit-policy".into(), "40;w=2, 1000;w=86400".into())
        );
        assert_eq!(
            lines[1],
            ("ratelimit".into(), "limit=40, remaining=7, reset=17".into())
        );
        let below_a_second = admitted_with(5, SECOND / 2, 4, SECOND);
        let lines = sent(Fields::Draft7, &below_a_second);
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
        assert_eq!(sent(Fields::Draft6, &admitted()), expected);
    }

    #[test]
    fn the_reset_is_in_seconds_from_now_and_on_a_refusal_that_of_retry_after() {
        let lines = sent(
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
        let lines = sent(Fields::XRateLimit, &hopeless());
        assert_eq!(lines[2].1, "1");
    }

    /// The fields that layers with these decisions add, one after the other. `RateLimit-Policy`
    /// lists the policies of all of them.
    fn sent_by(fields: Fields, layers: &[&Decision]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for decision in layers {
            FieldWriter::new(fields).add(decision, &mut headers);
        }
        headers.remove(POLICY);
        headers
    }

    /// The dialects in which a second layer adds no second line of the same field.
    fn single_valued() -> Vec<Fields> {
        let refused = refused_for(SECOND);
        let is_single_valued = |fields: &Fields| {
            let headers = sent_by(*fields, &[&admitted(), &refused]);
            !headers.is_empty() && headers.len() == headers.keys_len()
        };
        let found: Vec<_> = Fields::ALL.into_iter().filter(is_single_valued).collect();
        assert!(found.len() >= 3, "only {found:?} were found");
        found
    }

    #[test]
    fn of_two_layers_the_single_valued_dialects_describe_the_tighter_one() {
        let left =
            |remaining| Decision::of_one(policy(API, remaining, SECOND, Judgement::Admitted));
        for fields in single_valued() {
            let tighter = sent_by(fields, &[&left(3)]);
            assert_eq!(sent_by(fields, &[&left(3), &left(5)]), tighter);
            assert_eq!(sent_by(fields, &[&left(5), &left(3)]), tighter);
        }
    }

    #[test]
    fn of_two_layers_with_as_much_left_the_inner_one_is_described() {
        // Its answer may be a refusal, whose wait is the reset.
        let inner = refused_for(Duration::from_secs(9));
        let outer = Decision::of_one(policy(API, 0, SECOND, Judgement::Admitted));
        for fields in single_valued() {
            let sent = sent_by(fields, &[&inner, &outer]);
            assert_eq!(sent, sent_by(fields, &[&inner]));
            assert_ne!(sent, sent_by(fields, &[&outer]));
        }
    }
}
