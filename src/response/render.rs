//! The body of a refusal.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};

use super::{problem, retry_after::whole_seconds};
use crate::decision::Decision;

/// Writes the response to a refused request: its status, its body and any fields.
///
/// The rate-limit fields and `Retry-After` are added to it, unless it has its own (of two numbers
/// of seconds in `Retry-After` the larger is sent); so is `Cache-Control: no-store`. It is not
/// asked for gRPC requests, which are answered in gRPC's form. For `HEAD` the body is left out.
///
/// It is implemented by [`ProblemJson`](super::ProblemJson), [`PlainText`] and every closure of the
/// same shape. A closure is given to [`Http::render`](super::Http::render), anything else to
/// [`Http::renderer`](super::Http::renderer).
///
/// # Example: a body of your own
///
/// ```
/// # use std::time::Duration;
/// # use bytes::Bytes;
/// # use http::Response;
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Outcome, Policy, Status}};
/// use tollgate::response::Http;
///
/// let respond = Http::new().render(|refusal| {
///     let body = format!("<p>Slow down: {} allows no more.", refusal.decision().policy());
///     let response = Response::builder().status(refusal.status()).header("content-type", "text/html");
///     response.body(Bytes::from(body)).unwrap()
/// });
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, outcome: Outcome::RefusedForMicros(1), replenished_after_micros: 1,
/// #     reset_after_micros: 1, delay_micros: 0,
/// # }));
/// let response: Response<Bytes> = respond.response(&decision);
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["Retry-After"], "1");
/// assert_eq!(response.body(), "<p>Slow down: trial allows no more.");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not render refusals",
    label = "not a renderer",
    note = "use a closure: `|refusal: &Refusal<'_>| -> Response<Bytes> {{ .. }}`, or implement `tollgate::response::Render`"
)]
pub trait Render {
    /// The response to a request that was refused.
    fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes>;

    /// The response to a request that is refused because the store is unavailable: status 503.
    fn unavailable(&self) -> Response<Bytes> {
        problem::unavailable()
    }
}

// Without this the compiler says "expected a closure" for each type that is not a renderer.
#[diagnostic::do_not_recommend]
impl<F: Fn(&Refusal<'_>) -> Response<Bytes>> Render for F {
    fn render(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        self(refusal)
    }
}

/// What a [renderer](Render) is given: the decision and the head of the request.
#[derive(Clone, Copy)]
pub struct Refusal<'a> {
    decision: &'a Decision,
    request: Option<RequestHead<'a>>,
}

#[derive(Clone, Copy)]
struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
}

impl<'a> Refusal<'a> {
    pub(super) fn of_request<B>(decision: &'a Decision, request: &'a http::Request<B>) -> Self {
        let head = RequestHead {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
        };
        Self {
            decision,
            request: Some(head),
        }
    }

    pub(super) fn of_decision(decision: &'a Decision) -> Self {
        Self {
            decision,
            request: None,
        }
    }

    /// The decision, with the wait and the policies that refuse.
    pub fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// The status that a refusal has unless the renderer chooses another: 429 Too Many Requests
    /// (RFC 6585).
    pub fn status(&self) -> StatusCode {
        StatusCode::TOO_MANY_REQUESTS
    }

    /// The method of the request; `None` in [`Http::response`](super::Http::response), which sees
    /// none.
    pub fn method(&self) -> Option<&'a Method> {
        Some(self.request?.method)
    }

    /// The target of the request; `None` in [`Http::response`](super::Http::response), which sees
    /// none.
    pub fn uri(&self) -> Option<&'a Uri> {
        Some(self.request?.uri)
    }

    /// The fields of the request, `Accept` among them; `None` in
    /// [`Http::response`](super::Http::response), which sees none.
    pub fn headers(&self) -> Option<&'a HeaderMap> {
        Some(self.request?.headers)
    }

    /// What went wrong and what to do about it, in one or two sentences without a line break.
    pub(super) fn sentence(&self) -> Cow<'static, str> {
        let Some(wait) = self.decision.retry_after() else {
            return match self.decision.never_fits() {
                true => "The request costs more than can ever be let through at once.".into(),
                false => {
                    "Too many requests are in flight. Try again when one of them has ended.".into()
                }
            };
        };
        let seconds = whole_seconds(wait).max(1);
        let plural = if seconds == 1 { "" } else { "s" };
        format!("The rate limit is exceeded. Try again in {seconds} second{plural}.").into()
    }
}

impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut refusal = f.debug_struct("Refusal");
        refusal
            .field("decision", self.decision)
            .finish_non_exhaustive()
    }
}

/// Answers a refused request with 429 and one line of plain text.
///
/// # Example: what a person with `curl` reads
///
/// ```
/// # use std::time::Duration;
/// # use bytes::Bytes;
/// # use http::Response;
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Outcome, Policy, Status}};
/// use tollgate::response::Http;
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, outcome: Outcome::RefusedForMicros(1_000_100), replenished_after_micros: 1_000_100,
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
        plain_text(refusal.status(), format!("{}\n", refusal.sentence()))
    }

    fn unavailable(&self) -> Response<Bytes> {
        plain_text(
            StatusCode::SERVICE_UNAVAILABLE,
            String::from("Rate limiting is temporarily unavailable.\n"),
        )
    }
}

fn plain_text(status: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::response::{
        Http,
        sample::{hopeless, refused_for},
    };

    fn own() -> Http<impl Render> {
        Http::new().render(|refusal| {
            let response = Response::builder().status(503).header("retry-after", "9");
            let response = response.header("cache-control", "private");
            let policy = refusal.decision().policy().to_owned();
            response
                .header("ratelimit", "mine")
                .body(policy.into())
                .unwrap()
        })
    }

    #[test]
    fn the_debug_form_of_a_refusal_keeps_the_request_to_itself() {
        let request = http::Request::get("/?token=s3cret").header("authorization", "s3cret");
        let request = request.body(()).unwrap();
        let decision = hopeless();
        let told = format!("{:?}", Refusal::of_request(&decision, &request));
        assert!(told.contains("api") && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn a_refusal_shows_the_request_if_there_is_one() {
        let request = http::Request::put("/files?part=1").header("accept", "text/html");
        let request = request.body(()).unwrap();
        let decision = hopeless();
        let refusal = Refusal::of_request(&decision, &request);
        assert_eq!(refusal.method(), Some(&Method::PUT));
        assert_eq!(refusal.uri().unwrap(), "/files?part=1");
        assert_eq!(refusal.headers().unwrap()["accept"], "text/html");
        let refusal = Refusal::of_decision(&decision);
        assert_eq!((refusal.method(), refusal.uri()), (None, None));
        assert_eq!(refusal.headers(), None);
    }

    #[test]
    fn plain_text_is_one_line_with_the_status_it_stands_for() {
        let decision = refused_for(Duration::from_secs(2));
        let refused = PlainText.render(&Refusal::of_decision(&decision));
        assert_eq!(refused.status(), 429);
        assert_eq!(
            refused.body(),
            "The rate limit is exceeded. Try again in 2 seconds.\n"
        );
        let unavailable = PlainText.unavailable();
        assert_eq!(unavailable.status(), 503);
        assert!(unavailable.body().ends_with(b"unavailable.\n"));
        for response in [refused, unavailable] {
            assert_eq!(
                response.headers()["content-type"],
                "text/plain; charset=utf-8"
            );
        }
    }

    #[test]
    fn the_sentence_says_the_wait_or_that_there_is_none() {
        let said = |decision: Decision| Refusal::of_decision(&decision).sentence();
        assert!(said(refused_for(Duration::from_micros(1))).ends_with("in 1 second."));
        assert!(said(refused_for(Duration::from_millis(1_001))).ends_with("in 2 seconds."));
        assert!(said(hopeless()).ends_with("than can ever be let through at once."));
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
