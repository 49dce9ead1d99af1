//! Writes the rate-limit fields into a response.

mod draft_11;
mod older_drafts;

use std::sync::OnceLock;

use http::{HeaderMap, HeaderValue, Response};

use super::{
    Refusal,
    fields::{Fields, POLICY, RATE_LIMIT},
    retry_after,
    set_field::set_no_store,
};
use crate::decision::{Decision, PolicyDecision};

/// A dialect, and the first `RateLimit-Policy` line that was written in it.
///
/// The line is kept for speed: most responders serve one policy, whose line never changes. A clone
/// of it takes 50 ns less than a new line; a decision through the layer takes 170 ns with these
/// fields (`middleware` of `benches/peers`, fields on).
#[derive(Debug, Clone, Default)]
pub(super) struct FieldWriter {
    pub(super) dialect: Fields,
    first_line: OnceLock<(Vec<PolicyDecision>, HeaderValue)>,
}

impl FieldWriter {
    pub(super) const fn new(dialect: Fields) -> Self {
        Self {
            dialect,
            first_line: OnceLock::new(),
        }
    }

    /// Adds the fields to a response, if there is room for all of them. [`Fields::Draft11`] adds
    /// its lines after those of an inner layer or the handler.
    pub(super) fn add(&self, decision: &Decision, headers: &mut HeaderMap) {
        let names = self.dialect.rate_limit_names();
        if headers.try_reserve(names.len()).is_err() {
            return;
        }
        match self.dialect {
            Fields::Draft11 => {
                let _ = headers.try_append(POLICY, self.policy_line(decision));
                // The list is not empty: a refusal has a policy that refuses.
                let _ = headers.try_append(RATE_LIMIT, draft_11::rates(decision));
            }
            Fields::Draft7 => older_drafts::set_dictionary(decision, headers),
            Fields::Draft6 => {
                older_drafts::append_policies(decision, headers);
                older_drafts::set_three(names, decision, headers);
            }
            Fields::XRateLimit => older_drafts::set_three(names, decision, headers),
            Fields::Off => {}
        }
    }

    /// Adds what every refusal has, whatever its form: the wait, the fields, unless the renderer
    /// has written one of them, and the decision among the extensions. No cache may keep the
    /// answer.
    pub(super) fn complete<B>(&self, refusal: &Refusal<'_>, response: &mut Response<B>) {
        if let Some(decision) = refusal.decision() {
            let headers = response.headers_mut();
            retry_after::set(decision, headers);
            let mut names = self.dialect.rate_limit_names().iter();
            if !names.any(|name| headers.contains_key(name)) {
                self.add(decision, headers);
            }
            response.extensions_mut().insert(decision.clone());
        }
        set_no_store(response.headers_mut());
    }

    fn policy_line(&self, decision: &Decision) -> HeaderValue {
        let policies = decision.policies();
        let write = || (policies.to_vec(), draft_11::policies(decision));
        let (known, line) = self.first_line.get_or_init(write);
        let is_same = known.len() == policies.len()
            && (known.iter().zip(policies))
                .all(|(known, policy)| known.is_of_the_same_policy(policy));
        match is_same {
            true => line.clone(),
            false => draft_11::policies(decision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithm::Judgement,
        response::tests::{SECOND, admitted, admitted_with, both, full},
    };

    #[test]
    fn a_remembered_line_is_sent_for_its_own_policies_only() {
        let writer = FieldWriter::default();
        for _ in 0..2 {
            for decision in [
                admitted(),
                both(Judgement::Admitted, Judgement::Admitted),
                admitted_with(5, SECOND, 5, SECOND),
                admitted_with(6, SECOND, 5, SECOND),
                admitted_with(5, SECOND * 2, 5, SECOND),
            ] {
                let mut headers = HeaderMap::new();
                writer.add(&decision, &mut headers);
                assert_eq!(headers[POLICY], draft_11::policies(&decision));
            }
        }
    }

    #[test]
    fn fields_that_are_off_leave_the_response_as_it_is() {
        let mut headers = HeaderMap::new();
        FieldWriter::new(Fields::Off).add(&admitted(), &mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn a_response_without_room_for_all_fields_gets_none_of_them() {
        for dialect in Fields::ALL {
            for room in 0..dialect.rate_limit_names().len() {
                let mut headers = full();
                for number in 0..room {
                    headers.remove(format!("x-{number}"));
                }
                let before = headers.clone();
                FieldWriter::new(dialect).add(&admitted(), &mut headers);
                assert_eq!(headers, before, "{dialect:?} with room for {room}");
            }
        }
    }

    #[test]
    fn the_lines_of_an_inner_layer_are_kept_before_ours() {
        let mut headers = HeaderMap::new();
        headers.insert(POLICY, HeaderValue::from_static("\"inner\";q=1"));
        headers.insert(RATE_LIMIT, HeaderValue::from_static("\"inner\";r=0"));
        FieldWriter::default().add(&admitted(), &mut headers);
        let lines = |name| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(lines(POLICY), ["\"inner\";q=1", r#""api";q=40;w=2"#]);
        assert_eq!(lines(RATE_LIMIT), ["\"inner\";r=0", r#""api";r=39;t=1"#]);
    }
}
