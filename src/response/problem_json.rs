//! The default body of a refusal: problem details in JSON (RFC 9457).

use super::refusal::Refusal;

/// The body of a refusal: for a 429 with the names of the policies that refuse, in the extension
/// member of draft-ietf-httpapi-ratelimit-headers-11, and with this type of problem. It contains
/// nothing of the key, the address or the store.
pub(super) fn problem_json(refusal: &Refusal<'_>, problem_type: Option<&str>) -> String {
    let (status, decision) = (refusal.status(), refusal.decision());
    let mut json = String::from("{");
    if let (Some(problem_type), Some(_)) = (problem_type, decision) {
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
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::StoreErrorKind,
        response::{Http, Reason, render::Render, tests::hopeless},
    };

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
            let response = Render::Problem.render(&refusal);
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
        let typed = problem_json(&refusal, Some(Http::QUOTA_EXCEEDED));
        let first =
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"#;
        assert!(typed.starts_with(first));
        let untyped = problem_json(&refusal, None);
        assert!(untyped.starts_with(r#"{"title":"#));
    }
}
