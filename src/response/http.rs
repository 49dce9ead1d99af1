//! The answer in HTTP: 429, the time to wait, and what is left.

use std::{borrow::Cow, fmt, mem, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header::TRANSFER_ENCODING};

use super::{
    BodyEnd, Reason, Refusal, Respond,
    body::{FromBytes, keep_until_end},
    fields::Fields,
    grpc::{Grpc, content_type_of_call},
    head::for_method,
    render::Render,
    retry_after,
};
use crate::{
    decision::{Decision, PolicyDecision},
    hold::Hold,
};

/// Answers a refused request with 429 Too Many Requests, and shows every caller how much of its
/// limits is left.
///
/// This is the default of a layer. The rules of what is sent:
///
/// 1. A request over its limit is refused with status 429 (RFC 6585, section 4). No cache may keep
///    it, so it has `Cache-Control: no-store`, as do a rejection, a 503 and every gRPC answer; a
///    `Cache-Control` of the renderer or the rejection is kept.
/// 2. `Retry-After` is the exact wait in seconds (RFC 9110, section 10.2.3), rounded up, never 0
///    and never capped. It is left out if the cost can never fit, or if room comes only when a
///    request [in flight](crate::algorithm::InFlight) ends. A longer `Retry-After` of an inner
///    layer or a renderer is kept. If nothing is left here, a shorter one is lengthened until
///    there is one unit.
/// 3. `RateLimit-Policy` and `RateLimit` are on responses to admitted and refused requests alike,
///    as in draft-ietf-httpapi-ratelimit-headers-11, after the lines of inner layers; see
///    [`Fields`] for other dialects.
/// 4. The body is an `application/problem+json` (RFC 9457), or written by a
///    [closure](Self::render). For `HEAD` it is left out, with its
///    length in `Content-Length`.
/// 5. A gRPC or gRPC-Web request, a `POST` with one of their content types, is answered in [its own
///    form](super::Grpc) instead. Any other method is HTTP, with any content type.
/// 6. The [`Decision`] is among the extensions of the refusing response, for outer layers.
/// 7. If the store is unavailable, 503 (gRPC: `UNAVAILABLE`) is answered in the service's place,
///    without rate-limit numbers. If the store is misconfigured or the entry of this key is
///    invalid, it is 500 (gRPC: `INTERNAL`): a retry does not help.
/// 8. A rejection of the key extractor is sent as it is, apart from rule 1 (gRPC: as the code that
///    stands for its status), unless a renderer of your own writes it anew.
///
/// No answer contains the key, an address or the store's error. The inner service's errors pass
/// through.
///
/// Scripts in a browser see these fields only if the CORS layer exposes their
/// [names](Fields::names). Put the CORS layer outside of this one, so that preflight requests are
/// not limited.
///
/// # Example: the default
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// # use bytes::Bytes;
/// # use http::{Request, Response};
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::{Http, Reason, Refusal, Respond};
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1_500_000),
/// #     replenished_after_micros: 1_500_000,
/// #     reset_after_micros: 1_500_000, delay_micros: 0,
/// # }));
/// # let request = Request::new(());
/// let refusal = Refusal::new(Reason::Limited(&decision));
/// let refused: Result<Response<Bytes>, Infallible> = Http::new().answer(&request, refusal);
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
/// use tollgate::response::{Fields, Http};
///
/// let terse = Http::new().fields(Fields::Off).plain_text();
/// let typed = Http::new().fields(Fields::XRateLimit).problem_type(Http::QUOTA_EXCEEDED);
/// # let _ = (terse, typed);
/// ```
#[derive(Clone, Default)]
pub struct Http {
    render: Render,
    /// The answers to gRPC calls, with the fields of all answers.
    pub(super) grpc: Grpc,
}

impl Http {
    /// The problem type that draft-ietf-httpapi-ratelimit-headers-11 proposes for an exceeded
    /// quota.
    ///
    /// It is not registered yet, so it is sent only if you [set it](Self::problem_type).
    pub const QUOTA_EXCEEDED: &'static str =
        "https://iana.org/assignments/http-problem-types#quota-exceeded";

    /// The default: the [fields](Fields::Draft11) of draft 11, and a problem+json body.
    pub const fn new() -> Self {
        Self {
            render: Render::Problem,
            grpc: Grpc::new(),
        }
    }

    /// Names the type of problem in the body of a 429: a URI, which is sent as it is. By default
    /// there is none, which means `about:blank`.
    ///
    /// The body also names the policies that refuse, in the extension member of
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
    /// let http = Http::new().problem_type("urn:too-fast");
    /// let response: Response<Bytes> = http.response(&decision);
    /// assert_eq!(response.headers()["Content-Type"], "application/problem+json");
    /// assert_eq!(
    ///     response.body(),
    ///     concat!(
    ///         r#"{"type":"urn:too-fast","title":"Too Many Requests","status":429,"#,
    ///         r#""detail":"The rate limit is exceeded. Try again in 1 second.","violated-policies":["trial"]}"#,
    ///     ),
    /// );
    /// ```
    #[must_use]
    pub fn problem_type(mut self, uri: impl Into<Cow<'static, str>>) -> Self {
        self.render = Render::ProblemOfType(uri.into());
        self
    }

    /// Which rate-limit fields are sent, to admitted and refused callers alike.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.grpc = self.grpc.fields(fields);
        self
    }

    /// Answers a 429 with one line of text instead of JSON.
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
    #[must_use]
    pub fn plain_text(mut self) -> Self {
        self.render = Render::PlainText;
        self
    }

    /// Lets a closure write the response to a refused request, whatever the
    /// [reason](Refusal::reason): it is over its limit, it has no key, or the store failed.
    ///
    /// The layer then adds headers that the response does not have:
    ///
    /// - If the request is over its limit, the rate-limit fields and `Retry-After`. (Of two numbers
    ///   of seconds in `Retry-After` the larger is sent.)
    /// - If the key extractor has rejected the request, the headers of the rejection, except for
    ///   those that describe its body.
    /// - `Cache-Control: no-store`.
    ///
    /// It is not called for gRPC requests, which are answered in gRPC's own form. For `HEAD` the
    /// body is left out.
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
    #[must_use]
    pub fn render(
        mut self,
        render: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.render = Render::Own(Arc::new(render));
        self
    }

    /// Adds the rate-limit fields of a decision that a handler has made itself.
    ///
    /// A layer around the handler adds its own lines, also if the handler's decision is of the same
    /// policy. A response of [`response`](Self::response) has only the handler's.
    pub fn add_fields(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.grpc.fields.add(decision, headers);
        retry_after::lengthen(decision, headers);
    }

    /// The 429 for a refusing decision that a handler has made itself; 200 without a body for an
    /// admitting one.
    ///
    /// It does not see the request, so it is always an HTTP answer with a body; servers leave the
    /// body out for `HEAD` themselves. A layer around the handler with the same policy adds no
    /// line: the handler's is sent.
    pub fn response<B: FromBytes>(&self, decision: &Decision) -> Response<B> {
        let mut response = match decision.is_admitted() {
            true => {
                let mut response = Response::new(Bytes::new());
                self.grpc.fields.add(decision, response.headers_mut());
                response
            }
            false => self.refusal(&Refusal::new(Reason::Limited(decision))),
        };
        let rendered = RenderedByHandler(decision.clone(), self.grpc.fields.dialect);
        response.extensions_mut().insert(rendered);
        response.map(B::from_bytes)
    }

    fn refusal(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let mut response = self.render.render(refusal);
        if let Reason::Rejected(rejection) = refusal.reason() {
            add_what_is_missing(&mut response, rejection);
        }
        self.grpc.fields.complete(refusal, &mut response);
        response
    }
}

/// An extension of a response: the decision that a handler has rendered into it, in this dialect.
#[derive(Clone)]
struct RenderedByHandler(Decision, Fields);

impl RenderedByHandler {
    /// Whether it describes all policies of the other decision.
    fn names(&self, other: &Decision, dialect: Fields) -> bool {
        let is_named = |policy: &PolicyDecision| {
            let mut all = self.0.policies().iter();
            all.any(|known| known.is_of_the_same_policy(policy))
        };
        self.1 == dialect && other.policies().iter().all(is_named)
    }
}

/// Adds the headers (such as `WWW-Authenticate`) and the extensions of a rejection to a rendered
/// response, except for the headers that describe the rejection's body.
fn add_what_is_missing(response: &mut Response<Bytes>, rejection: &Response<Bytes>) {
    let headers = response.headers_mut();
    for name in rejection.headers().keys() {
        let describes_body = name.as_str().starts_with("content-") || name == TRANSFER_ENCODING;
        if describes_body || headers.contains_key(name) {
            continue;
        }
        for value in rejection.headers().get_all(name) {
            let _ = headers.try_append(name, value.clone());
        }
    }
    let mut extensions = rejection.extensions().clone();
    extensions.extend(mem::take(response.extensions_mut()));
    *response.extensions_mut() = extensions;
}

impl<ReqB, ResB: FromBytes, E> Respond<Request<ReqB>, Response<ResB>, E> for Http {
    type Error = E;

    fn answer(&self, request: &Request<ReqB>, refusal: Refusal<'_>) -> Result<Response<ResB>, E> {
        let refusal = refusal.of_request(request);
        Ok(match content_type_of_call(request) {
            Some(content_type) => self.grpc.response(content_type, &refusal),
            None => for_method(request.method(), self.refusal(&refusal)),
        })
    }

    fn inner_error(error: E) -> E {
        error
    }

    /// Puts the decision into the request's extensions.
    fn expose(&self, request: &mut Request<ReqB>, decision: Decision) {
        request.extensions_mut().insert(decision);
    }

    /// Puts the hold into the request's extensions, as one with that of an outer layer.
    fn hand_over(&self, request: &mut Request<ReqB>, hold: Hold) {
        let outer = request.extensions_mut().remove();
        request.extensions_mut().insert(hold.and(outer));
    }

    fn keep_until_end(&self, response: &mut Response<ResB>, end: BodyEnd) {
        keep_until_end(response, end);
    }

    fn annotates(&self) -> bool {
        self.grpc.fields.dialect != Fields::Off
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        let rendered = response.extensions().get::<RenderedByHandler>();
        if rendered.is_some_and(|rendered| rendered.names(decision, self.grpc.fields.dialect)) {
            return retry_after::lengthen(decision, response.headers_mut());
        }
        self.add_fields(decision, response.headers_mut());
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("grpc", &self.grpc)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
