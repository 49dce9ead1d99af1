//! The default body of a refusal: problem details in JSON (RFC 9457).

use std::borrow::Cow;

use bytes::Bytes;
use http::Response;

use super::{
    refusal::{Reason, Refusal},
    render::{Render, with_body},
};

/// Answers a refused request with an `application/problem+json` body (RFC 9457), and a rejection as
/// it is: the default.
///
/// The body of a 429 names the policies that refuse, in the extension member of
/// draft-ietf-httpapi-ratelimit-headers-11. It contains nothing of the key, the address or the
/// store.
///
/// # Example: the body of a refusal
///
/// ```
/// # use std::time::Duration;
/// # use bytes::Bytes;
/// # use http::Response;
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::Http;
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1_000_000),
/// #     replenished_after_micros: 1_000_000,
/// #     reset_after_micros: 1_000_000, delay_micros: 0,
/// # }));
/// let response: Response<Bytes> = Http::new().response(&decision);
/// assert_eq!(response.headers()["Content-Type"], "application/problem+json");
/// assert_eq!(
///     response.body(),
///     concat!(
///         r#"{"title":"Too Many Requests","status":429,"#,
///         r#""detail":"The rate limit is exceeded. Try again in 1 second.","violated-policies":["trial"]}"#,
///     ),
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProblemJson {
    problem_type: Option<Cow<'static, str>>,
}

impl ProblemJson {
    /// The problem type that draft-ietf-httpapi-ratelimit-headers-11 proposes for an exceeded
    /// quota.
    ///
    /// It is not registered yet, so it is sent only if you [set it](super::Http::problem_type).
    pub const QUOTA_EXCEEDED: &'static str =
        "https://iana.org/assignments/http-problem-types#quota-exceeded";

    pub(super) const fn new() -> Self {
        Self { problem_type: None }
    }

    pub(super) fn of_type(problem_type: Cow<'static, str>) -> Self {
        Self {
            problem_type: Some(problem_type),
        }
    }
}

impl Render for ProblemJson {
    fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        if let Reason::Rejected(rejection) = refusal.reason() {
            return rejection.clone();
        }
        let (status, decision) = (refusal.status(), refusal.decision());
        let mut json = String::from("{");
        if let (Some(problem_type), Some(_)) = (&self.problem_type, decision) {
            json.push_str(&format!(r#""type":"{problem_type}","#));
        }
        let (title, number) = (status.canonical_reason(), status.as_u16());
        json.push_str(&format!(
            r#""title":"{}","status":{number},"detail":"{}""#,
            title.unwrap_or_default(),
            refusal.message()
        ));
        if let Some(decision) = decision {
            let policies = decision.policies().iter();
            let violated = policies.filter(|policy| !policy.is_admitted());
            // A name needs no escape.
            let names: Vec<_> = violated.map(|it| format!("\"{}\"", it.policy())).collect();
            json.push_str(&format!(r#","violated-policies":[{}]"#, names.join(",")));
        }
        json.push('}');
        with_body(status, "application/problem+json", json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::StoreErrorKind, response::tests::hopeless};

    #[test]
    fn the_status_of_the_problem_is_the_status_of_the_response() {
        let decision = hopeless();
        let failed = Reason::StoreFailed;
        let reasons = [
            Reason::Limited(&decision),
            failed(StoreErrorKind::Unavailable),
            failed(StoreErrorKind::InvalidInput),
        ];
        for refusal in reasons.map(Refusal::new) {
            let response = ProblemJson::default().render(&refusal);
            assert_eq!(response.status(), refusal.status());
            let body = std::str::from_utf8(response.body()).unwrap();
            let member = format!("\"status\":{},", response.status().as_u16());
            assert!(body.contains(&member), "{body}");
            assert!(body.starts_with('{') && body.ends_with('}'));
        }
    }

    #[test]
    fn a_problem_type_is_sent_only_where_it_was_asked_for() {
        let decision = hopeless();
        let refusal = Refusal::new(Reason::Limited(&decision));
        let typed = ProblemJson::of_type(ProblemJson::QUOTA_EXCEEDED.into()).render(&refusal);
        let first =
            br#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"#;
        assert!(typed.body().starts_with(first));
        let untyped = ProblemJson::new().render(&refusal);
        assert!(untyped.body().starts_with(br#"{"title":"#));
    }
}
