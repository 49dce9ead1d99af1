//! The answer in HTTP: 429, the time to wait, and what is left.

use std::{borrow::Cow, mem};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, header::TRANSFER_ENCODING};

use super::{
    BodyEnd, PlainText, ProblemJson, Reason, Refusal, Render, Respond,
    body::{FromBytes, keep_until_end},
    fields::Fields,
    grpc::{Grpc, content_type_of_call},
    head::for_method,
    retry_after,
};
use crate::{
    decision::{Decision, PolicyDecision},
    hold::Hold,
};

/// Answers a refused request with 429 Too Many Requests, and tells every caller how much of its
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
///    layer or a renderer is kept. A shorter one is lengthened, if a caller who waited only for
///    that would be refused again.
/// 3. `RateLimit-Policy` and `RateLimit` are on responses to admitted and refused requests alike,
///    as in draft-ietf-httpapi-ratelimit-headers-11, after the lines of inner layers; see
///    [`Fields`] for other dialects.
/// 4. The body is an `application/problem+json` (RFC 9457), or written by a
///    [closure](Self::render) or a [renderer](Self::renderer). For `HEAD` it is left out, with its
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
/// use tollgate::response::{Fields, Http, ProblemJson};
///
/// let terse = Http::new().fields(Fields::Off).plain_text();
/// let typed = Http::new().fields(Fields::XRateLimit).problem_type(ProblemJson::QUOTA_EXCEEDED);
/// # let _ = (terse, typed);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Http<R = ProblemJson> {
    renderer: R,
    /// The answers to gRPC calls, with the fields of all answers.
    pub(super) grpc: Grpc,
}

impl Http {
    /// The default: the [fields](Fields::Draft11) of draft 11, and a problem+json body.
    pub const fn new() -> Self {
        Self {
            renderer: ProblemJson::new(),
            grpc: Grpc::new(),
        }
    }

    /// Names the type of problem in the body of a 429: a URI, which is sent as it is. By default
    /// there is none, which means `about:blank`.
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
        self.grpc = self.grpc.fields(fields);
        self
    }

    /// Answers a 429 with one line of text instead of JSON.
    #[must_use]
    pub fn plain_text(self) -> Http<PlainText> {
        self.renderer(PlainText)
    }

    /// Lets a closure write the response to a refused request, whatever the reason: it is over its
    /// limit, it has no key, or the store failed. See [`Render`].
    #[must_use]
    pub fn render<F>(self, renderer: F) -> Http<F>
    where
        F: Fn(&Refusal<'_>) -> Response<Bytes>,
    {
        self.renderer(renderer)
    }

    /// Lets a [`Render`] of your own write the response to a refused request, whatever the reason.
    #[must_use]
    pub fn renderer<F: Render>(self, renderer: F) -> Http<F> {
        Http {
            renderer,
            grpc: self.grpc,
        }
    }

    /// Adds the rate-limit fields of a decision that a handler has made itself.
    ///
    /// A layer around the handler adds its own lines, also if the handler's decision is of the same
    /// policy. A response of [`response`](Self::response) has only the handler's.
    pub fn add_fields(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.grpc.fields.add(decision, headers);
        retry_after::lengthen(decision, headers);
    }
}

impl<R: Render> Http<R> {
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
        let rendered = RenderedByHandler(decision.clone(), self.grpc.fields.dialect());
        response.extensions_mut().insert(rendered);
        response.map(B::from_bytes)
    }

    fn refusal(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        let mut response = self.renderer.render(refusal);
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
    fn tells_of(&self, other: &Decision, dialect: Fields) -> bool {
        let is_told = |policy: &PolicyDecision| {
            let mut told = self.0.policies().iter();
            told.any(|known| known.is_of_the_same_policy(policy))
        };
        self.1 == dialect && other.policies().iter().all(is_told)
    }
}

/// Adds the headers (such as `WWW-Authenticate`) and the extensions of a rejection to a rendered
/// response, except for the headers that describe the rejection's body.
fn add_what_is_missing(response: &mut Response<Bytes>, rejection: &Response<Bytes>) {
    let headers = response.headers_mut();
    let is_missing = |name: &HeaderName| {
        !headers.contains_key(name)
            && !name.as_str().starts_with("content-")
            && name != TRANSFER_ENCODING
    };
    let names: Vec<_> = rejection
        .headers()
        .keys()
        .filter(|name| is_missing(name))
        .collect();
    for name in names {
        for value in rejection.headers().get_all(name) {
            let _ = headers.try_append(name, value.clone());
        }
    }
    let mut extensions = rejection.extensions().clone();
    extensions.extend(mem::take(response.extensions_mut()));
    *response.extensions_mut() = extensions;
}

impl<ReqB, ResB: FromBytes, E, R: Render> Respond<Request<ReqB>, Response<ResB>, E> for Http<R> {
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

    /// Puts the hold into the request's extensions.
    fn hand_over(&self, request: &mut Request<ReqB>, hold: Hold) {
        request.extensions_mut().insert(hold);
    }

    fn keep_until_end(&self, response: &mut Response<ResB>, end: BodyEnd) {
        keep_until_end(response, end);
    }

    fn annotates(&self) -> bool {
        self.grpc.fields.dialect() != Fields::Off
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        let rendered = response.extensions().get::<RenderedByHandler>();
        if rendered.is_some_and(|rendered| rendered.tells_of(decision, self.grpc.fields.dialect()))
        {
            return retry_after::lengthen(decision, response.headers_mut());
        }
        self.add_fields(decision, response.headers_mut());
    }
}

#[cfg(test)]
mod tests;
