//! The answer in HTTP: 429, when to come again, and what is left.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};

use super::{
    PlainText, ProblemJson, Refusal, Render, Respond, body::FromBytes, field_writer::FieldWriter,
    fields::Fields, grpc_form::Form, head::for_method, retry_after,
};
use crate::{decision::Decision, error::StoreError};

/// Answers a refused request with 429 Too Many Requests, and tells every caller what is left of its limits.
///
/// It is what a layer does unless told otherwise. The numbers of what is sent:
///
/// 1. A refusal has status 429 (RFC 6585, section 4) and `Cache-Control: no-store`, as no cache may keep it.
/// 2. `Retry-After` is the exact wait in seconds (RFC 9110, section 10.2.3), rounded up, never 0 and never cut
///    short; it is left out if the cost can never fit. A longer one that an inner layer or a renderer has set is
///    kept; a shorter one is lengthened, where whoever kept it would be refused again.
/// 3. `RateLimit-Policy` and `RateLimit` are on responses to admitted and refused requests alike, in the form of
///    draft-ietf-httpapi-ratelimit-headers-11, after the lines of inner layers; see [`Fields`] for other dialects.
/// 4. The body is an `application/problem+json` (RFC 9457), or what a [renderer](Self::render) makes of it. It is
///    left out for `HEAD`, with its length in `Content-Length`.
/// 5. A gRPC or gRPC-Web request, told by its content type, is answered in [its own form](super::Grpc) instead.
/// 6. The [`Decision`] is among the extensions of the refusing response, for outer layers.
/// 7. A request that the store could not decide about, if it is not let through, is answered with 503 (gRPC:
///    `UNAVAILABLE`), without a number: nobody knows any.
/// 8. A rejection of the key extractor is sent as it is (gRPC: as the code that stands for its status).
///
/// Nothing that is sent tells the key, an address or what ails the store. The inner service's errors pass through.
///
/// A browser's script sees these fields only if the CORS layer sends
/// `Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After`. Whether preflight requests are
/// limited depends on which of the two layers is outside the other: the CORS layer, for most.
///
/// # Example: the default
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// # use bytes::Bytes;
/// # use http::{Request, Response};
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Outcome, Policy, Standing}};
/// use tollgate::response::{Http, Respond};
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Standing {
/// #     remaining: 0, outcome: Outcome::RefusedForMicros(1_500_000), replenished_after_micros: 1_500_000,
/// #     reset_after_micros: 1_500_000, delay_micros: 0,
/// # }));
/// # let request = Request::new(());
/// let refused: Result<Response<Bytes>, Infallible> = Http::new().refuse(&request, decision);
/// let response = refused.unwrap();
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["Retry-After"], "2");
/// assert_eq!(response.headers()["RateLimit-Policy"], r#""trial";q=5;w=60"#);
/// assert_eq!(response.headers()["RateLimit"], r#""trial";r=0;t=2"#);
/// assert_eq!(response.headers()["Content-Type"], "application/problem+json");
/// ```
///
/// # Example: customised
///
/// ```
/// use tollgate::response::{Fields, Http, ProblemJson};
///
/// let terse = Http::new().fields(Fields::Off).plain_text();
/// let typed = Http::new().fields(Fields::XRateLimit).problem_type(ProblemJson::QUOTA_EXCEEDED);
/// # let _ = (terse, typed);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Http<R = ProblemJson> {
    fields: FieldWriter,
    renderer: R,
}

impl Http {
    /// The default: the [fields](Fields::Draft11) of draft 11, and a body of problem+json.
    pub const fn new() -> Self {
        Self {
            fields: FieldWriter::new(Fields::Draft11),
            renderer: ProblemJson::new(),
        }
    }

    /// Names the type of problem in the body of a 429: a URI. By default there is none, which means `about:blank`.
    #[must_use]
    pub fn problem_type(mut self, uri: impl Into<Cow<'static, str>>) -> Self {
        self.renderer = ProblemJson::of_type(uri.into());
        self
    }
}

impl<R> Http<R> {
    /// Which rate-limit fields are sent, to admitted and refused callers alike.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = FieldWriter::new(fields);
        self
    }

    /// Answers a 429 with one line of text instead of JSON.
    #[must_use]
    pub fn plain_text(self) -> Http<PlainText> {
        self.render(PlainText)
    }

    /// Lets a renderer of one's own, a closure say, write the response to a refused request; see [`Render`].
    #[must_use]
    pub fn render<F: Render>(self, renderer: F) -> Http<F> {
        Http {
            fields: self.fields,
            renderer,
        }
    }

    /// Adds the rate-limit fields that tell of a decision which a handler got itself.
    pub fn add_fields(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.fields.add(decision, headers);
        retry_after::lengthen(decision, headers);
    }
}

impl<R: Render> Http<R> {
    /// The 429 for a refusing decision that a handler got itself; 200 without a body for one that admits.
    ///
    /// It knows nothing of the request, so it is in the form of HTTP and always has its body; servers leave out the
    /// body of an answer to `HEAD` themselves.
    pub fn response<B: FromBytes>(&self, decision: &Decision) -> Response<B> {
        if !decision.is_admitted() {
            return self
                .refusal(&Refusal::of_decision(decision))
                .map(B::from_bytes);
        }
        let mut response = Response::new(B::from_bytes(Bytes::new()));
        self.fields.add(decision, response.headers_mut());
        response
    }

    fn refusal(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let mut response = self.renderer.render(refusal);
        let headers = response.headers_mut();
        retry_after::set(refusal.decision(), headers);
        self.fields.add_unless_rendered(refusal.decision(), headers);
        let no_store = HeaderValue::from_static("no-store");
        headers.entry(header::CACHE_CONTROL).or_insert(no_store);
        response.extensions_mut().insert(refusal.decision().clone());
        response
    }
}

impl<ReqB, ResB: FromBytes, E, R: Render> Respond<Request<ReqB>, Response<ResB>, E> for Http<R> {
    type Error = E;

    fn refuse(&self, request: &Request<ReqB>, decision: Decision) -> Result<Response<ResB>, E> {
        Ok(match Form::of(request.headers()) {
            Some(form) => form.refuse(decision, &self.fields),
            None => {
                let response = self.refusal(&Refusal::of_request(&decision, request));
                for_method(request.method(), response)
            }
        })
    }

    fn reject(
        &self,
        request: &Request<ReqB>,
        rejection: Response<Bytes>,
    ) -> Result<Response<ResB>, E> {
        Ok(match Form::of(request.headers()) {
            Some(form) => form.reject(rejection),
            None => for_method(request.method(), rejection),
        })
    }

    fn unavailable(&self, request: &Request<ReqB>, _: &StoreError) -> Result<Response<ResB>, E> {
        if let Some(form) = Form::of(request.headers()) {
            return Ok(form.unavailable());
        }
        let mut response = self.renderer.unavailable();
        let no_store = HeaderValue::from_static("no-store");
        let headers = response.headers_mut();
        headers.entry(header::CACHE_CONTROL).or_insert(no_store);
        Ok(for_method(request.method(), response))
    }

    fn inner_error(error: E) -> E {
        error
    }

    #[inline]
    fn annotates(&self) -> bool {
        !self.fields.is_off()
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        self.add_fields(decision, response.headers_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use http::Method;

    use super::*;
    use crate::{
        algorithm::Outcome,
        error::StoreErrorKind,
        response::{
            Grpc,
            sample::{admitted, both, refused_for},
        },
    };

    const WAIT: Duration = Duration::from_millis(1_500);

    fn request(method: Method) -> Request<()> {
        let request = Request::builder()
            .method(method)
            .uri("/secret?token=s3cret");
        request.header("authorization", "s3cret").body(()).unwrap()
    }

    fn refused<R: Render>(http: Http<R>, method: Method, decision: Decision) -> Response<Bytes> {
        let Ok::<_, Infallible>(response) = http.refuse(&request(method), decision);
        response
    }

    fn annotated(
        http: Http,
        mut response: Response<Bytes>,
        decision: &Decision,
    ) -> Response<Bytes> {
        Respond::<Request<()>, _, Infallible>::annotate(&http, decision, &mut response);
        response
    }

    #[test]
    fn a_refusal_is_a_429_that_no_cache_keeps_with_the_wait_the_fields_and_a_problem() {
        let response = refused(Http::new(), Method::GET, refused_for(WAIT));
        assert_eq!(response.status(), 429);
        let headers = response.headers();
        assert_eq!(headers["retry-after"], "2");
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["ratelimit-policy"], r#""api";q=40;w=2"#);
        assert_eq!(headers["ratelimit"], r#""api";r=0;t=2"#);
        assert_eq!(headers["content-type"], "application/problem+json");
        assert_eq!(headers.len(), 5);
        assert_eq!(response.extensions().get(), Some(&refused_for(WAIT)));
    }

    #[test]
    fn two_violated_policies_are_both_named_in_their_order_with_the_longer_wait() {
        let [api, daily] = [500_000, 87_000_000].map(Outcome::RefusedForMicros);
        let response = refused(Http::new(), Method::GET, both(api, daily));
        assert_eq!(response.headers()["retry-after"], "87");
        assert_eq!(
            response.headers()["ratelimit"],
            r#""api";r=0;t=1, "daily";r=0;t=87"#
        );
        let body = std::str::from_utf8(response.body()).unwrap();
        assert!(
            body.ends_with(r#""violated-policies":["api","daily"]}"#),
            "{body}"
        );
    }

    #[test]
    fn the_answer_to_head_has_the_length_of_the_body_and_not_the_body() {
        let get = refused(Http::new(), Method::GET, refused_for(WAIT));
        let head = refused(Http::new(), Method::HEAD, refused_for(WAIT));
        assert!(head.body().is_empty());
        assert_eq!(
            head.headers()["content-length"],
            get.body().len().to_string()
        );
        let mut without_length = head.headers().clone();
        without_length.remove("content-length");
        assert_eq!(&without_length, get.headers());
    }

    #[test]
    fn an_admitted_response_gets_the_fields_and_nothing_else_whatever_it_is() {
        for status in [101, 200, 204, 301, 304, 404] {
            let inner = Response::builder()
                .status(status)
                .body(Bytes::new())
                .unwrap();
            let response = annotated(Http::new(), inner, &admitted());
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["ratelimit"], r#""api";r=39;t=1"#);
            assert_eq!(response.headers().len(), 2);
            assert!(response.body().is_empty() && response.extensions().is_empty());
        }
    }

    #[test]
    fn the_refusal_of_an_inner_layer_keeps_its_lines_and_the_longer_of_both_waits() {
        for (wait, told) in [(500, "2"), (9_500, "10")] {
            let inner = refused(Http::new(), Method::GET, refused_for(WAIT));
            let outer = refused_for(Duration::from_millis(wait));
            let response = annotated(Http::new(), inner, &outer);
            assert_eq!(response.headers().get_all("ratelimit").iter().count(), 2);
            assert_eq!(
                response
                    .headers()
                    .get_all("ratelimit-policy")
                    .iter()
                    .count(),
                2
            );
            assert_eq!(response.headers().get_all("retry-after").iter().count(), 1);
            assert_eq!(response.headers()["retry-after"], told);
        }
    }

    #[test]
    fn nothing_is_annotated_where_fields_are_off_but_a_refusal_still_tells_its_wait() {
        let off = Http::new().fields(Fields::Off);
        assert!(!Respond::<Request<()>, Response<Bytes>, Infallible>::annotates(&off));
        let response = refused(off, Method::GET, refused_for(WAIT));
        assert!(!response.headers().contains_key("ratelimit"));
        assert_eq!(response.headers()["retry-after"], "2");
    }

    #[test]
    fn the_store_that_cannot_decide_is_a_503_without_numbers_or_reasons() {
        let error = StoreError::new(StoreErrorKind::Unavailable, "redis://s3cret");
        let answer = |method| {
            let Ok::<Response<Bytes>, Infallible>(response) =
                Http::new().unavailable(&request(method), &error);
            response
        };
        let response = answer(Method::GET);
        assert_eq!(response.status(), 503);
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
        assert_eq!(response.headers().len(), 2);
        assert!(!format!("{response:?}").contains("s3cret"));
        assert!(answer(Method::HEAD).body().is_empty());
    }

    #[test]
    fn a_rejection_is_sent_as_it_is() {
        let rejection = Response::builder()
            .status(400)
            .body("no key".into())
            .unwrap();
        let Ok::<Response<Bytes>, Infallible>(response) =
            Http::new().reject(&request(Method::GET), rejection);
        assert_eq!(
            (response.status().as_u16(), response.headers().len()),
            (400, 0)
        );
        assert_eq!(response.body(), "no key");
    }

    #[test]
    fn a_grpc_request_is_answered_as_the_grpc_responder_does() {
        let mut request = request(Method::POST);
        let content_type = HeaderValue::from_static("application/grpc-web");
        request.headers_mut().insert("content-type", content_type);
        let Ok::<Response<Bytes>, Infallible>(ours) =
            Http::new().plain_text().refuse(&request, refused_for(WAIT));
        let Ok::<Response<Bytes>, Infallible>(grpc) =
            Grpc::new().refuse(&request, refused_for(WAIT));
        assert_eq!(
            (ours.status(), ours.headers()),
            (grpc.status(), grpc.headers())
        );
    }

    #[test]
    fn a_handler_can_render_what_it_has_decided_itself() {
        let refused: Response<Bytes> = Http::new().response(&refused_for(WAIT));
        assert_eq!(refused.status(), 429);
        let admitted: Response<Bytes> = Http::new().response(&admitted());
        assert_eq!(
            (admitted.status().as_u16(), admitted.body().len()),
            (200, 0)
        );
        assert!(admitted.headers().contains_key("ratelimit"));
    }

    #[test]
    fn nothing_of_the_request_is_echoed() {
        for method in [Method::GET, Method::HEAD] {
            let json = refused(Http::new(), method.clone(), refused_for(WAIT));
            let text = refused(Http::new().plain_text(), method, refused_for(WAIT));
            for response in [json, text] {
                assert!(!format!("{response:?}").contains("s3cret"));
            }
        }
    }
}
