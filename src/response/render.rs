//! The body of a refusal.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::refusal::{Reason, Refusal};

/// Writes the response to a refused request, whatever the [reason](Refusal::reason): its status,
/// its body and any headers.
///
/// The layer then adds headers that the response does not have:
///
/// - If the request is over its limit, the rate-limit fields and `Retry-After`. (Of two numbers of
///   seconds in `Retry-After` the larger is sent.)
/// - If the key extractor has rejected the request, the headers of the rejection, except for those
///   that describe its body.
/// - `Cache-Control: no-store`.
///
/// It is not called for gRPC requests, which are answered in gRPC's own form. For `HEAD` the body
/// is left out.
///
/// It is implemented by [`ProblemJson`](super::ProblemJson), [`PlainText`] and closures of the same
/// shape. Give a closure to [`Http::render`](super::Http::render), and anything else to
/// [`Http::renderer`](super::Http::renderer).
///
/// # Example: a body of your own
///
/// ```
/// # use std::time::Duration;
/// # use bytes::Bytes;
/// # use http::Response;
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::Http;
///
/// let respond = Http::new().render(|refusal| {
///     let json = serde_json::json!({ "error": refusal.message() }).to_string();
///     let response = Response::builder().status(refusal.status());
///     let response = response.header("content-type", "application/json");
///     response.body(Bytes::from(json)).unwrap()
/// });
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1), replenished_after_micros: 1,
/// #     reset_after_micros: 1, delay_micros: 0,
/// # }));
/// let response: Response<Bytes> = respond.response(&decision);
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["Retry-After"], "1");
/// let error = "The rate limit is exceeded. Try again in 1 second.";
/// assert_eq!(response.body(), &format!(r#"{{"error":"{error}"}}"#));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not render refusals",
    label = "not a renderer",
    note = "use a closure: `|refusal: &Refusal<'_>| -> Response<Bytes> {{ .. }}`, or implement `tollgate::response::Render`"
)]
pub trait Render {
    /// The response to a request that is refused.
    fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes>;
}

// Without this the compiler would say "expected a closure" for every other type.
#[diagnostic::do_not_recommend]
impl<F: Fn(&Refusal<'_>) -> Response<Bytes>> Render for F {
    fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        self(refusal)
    }
}

/// Answers a refused request with one line of plain text, and a rejection as it is.
///
/// # Example: the text of a refusal
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
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1_000_100),
/// #     replenished_after_micros: 1_000_100,
/// #     reset_after_micros: 1_000_100, delay_micros: 0,
/// # }));
/// let response: Response<Bytes> = Http::new().plain_text().response(&decision);
/// assert_eq!(response.body(), "The rate limit is exceeded. Try again in 2 seconds.\n");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainText;

impl Render for PlainText {
    fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        if let Reason::Rejected(rejection) = refusal.reason() {
            return rejection.clone();
        }
        let text = format!("{}\n", refusal.message());
        with_body(refusal.status(), "text/plain; charset=utf-8", text)
    }
}

/// A response with this body.
pub(super) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: String,
) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        error::StoreErrorKind,
        response::{Http, tests::refused_for},
    };

    fn own() -> Http<impl Render> {
        Http::new().render(|refusal| {
            let response = Response::builder().status(503).header("retry-after", "9");
            let response = response.header("cache-control", "private");
            let policy = refusal.decision().map(|decision| decision.policy());
            response
                .header("ratelimit", "mine")
                .body(policy.unwrap_or_default().to_owned().into())
                .unwrap()
        })
    }

    #[test]
    fn plain_text_is_one_line_with_the_status_it_stands_for() {
        let decision = refused_for(Duration::from_secs(2));
        let refused = PlainText.render(&Refusal::new(Reason::Limited(&decision)));
        assert_eq!(refused.status(), 429);
        assert_eq!(
            refused.body(),
            "The rate limit is exceeded. Try again in 2 seconds.\n"
        );
        let failed = |kind| PlainText.render(&Refusal::new(Reason::StoreFailed(kind)));
        let unavailable = failed(StoreErrorKind::Unavailable);
        assert_eq!(unavailable.status(), 503);
        assert!(unavailable.body().ends_with(b"unavailable.\n"));
        let misconfigured = failed(StoreErrorKind::Misconfigured);
        assert_eq!(misconfigured.status(), 500);
        for response in [refused, unavailable, misconfigured] {
            assert_eq!(
                response.headers()["content-type"],
                "text/plain; charset=utf-8"
            );
        }
    }

    #[test]
    fn what_a_renderer_has_set_itself_is_kept() {
        let response: Response<Bytes> = own().response(&refused_for(Duration::from_secs(2)));
        assert_eq!(
            (response.status().as_u16(), &**response.body()),
            (503, &b"api"[..])
        );
        assert_eq!(response.headers()["retry-after"], "9");
        assert_eq!(response.headers()["cache-control"], "private");
        assert_eq!(response.headers()["ratelimit"], "mine");
        assert!(!response.headers().contains_key("ratelimit-policy"));
    }
}
