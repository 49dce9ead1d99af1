//! The answer in gRPC's own form: a status in the header fields, and no body.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

use super::{
    BodyEnd, Reason, Refusal, Respond,
    body::{FromBytes, keep_until_end},
    field_writer::FieldWriter,
    fields::Fields,
    refusal::strip_prefix,
    retry_after,
    set_field::{ascii, set, set_if_absent},
};
use crate::{decision::Decision, hold::Hold};

mod protobuf;
#[cfg(feature = "tonic")]
mod status;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const GRPC: &str = "application/grpc";

const RESOURCE_EXHAUSTED: u16 = 8;

/// Answers a refused request with `RESOURCE_EXHAUSTED` (8), whether the request is gRPC or not: for
/// a service that speaks only gRPC.
///
/// [`Http`](super::Http) answers gRPC requests in the same way, and other requests in HTTP. The
/// answer has HTTP status 200, which no cache may keep (`Cache-Control: no-store`), with everything
/// in one block of header fields (*Trailers-Only*) and no message:
///
/// - `grpc-status: 8`, and not `UNAVAILABLE` (14), on which client libraries retry at once. 14 is
///   for a store that is unavailable, `INTERNAL` (13) for one that is misconfigured. A rejection of
///   the key extractor has the code that stands for its status: 14 for 503, 3 for 400.
/// - `grpc-status-details-bin`: a `google.rpc.Status` with `QuotaFailure`, which names each policy
///   that refuses and its limit, and with `RetryInfo`, the wait. There is no wait if the cost can
///   never fit, or if room comes only when a request [in flight](crate::algorithm::InFlight) ends.
/// - `grpc-retry-pushback-ms` (gRFC A6): the wait in milliseconds, rounded up, or `-1` (do not try
///   again) if the cost can never fit. It is left out if room comes only when a request in flight
///   ends.
/// - `Retry-After` and the rate-limit [fields](Self::fields). An admitted call has the fields in
///   its initial metadata.
///
/// A gRPC-Web request is answered with its own content type. Outside or inside of `tonic-web`, the
/// caller sees the same code. A CORS layer must expose `grpc-status`, `grpc-message` and
/// `grpc-status-details-bin`.
///
/// # Example: what a caller over its limit receives
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// # use bytes::Bytes;
/// # use http::{Request, Response};
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Judgement, Policy, Status}};
/// use tollgate::response::{Grpc, Reason, Refusal, Respond};
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Status {
/// #     remaining: 0, judgement: Judgement::RefusedForMicros(1_500_000),
/// #     replenished_after_micros: 1_500_000,
/// #     reset_after_micros: 1_500_000, delay_micros: 0,
/// # }));
/// # let request = Request::new(());
/// let refusal = Refusal::new(Reason::Limited(&decision));
/// let refused: Result<Response<Bytes>, Infallible> = Grpc::new().answer(&request, refusal);
/// let response = refused.unwrap();
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["grpc-status"], "8");
/// assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1500");
/// assert!(response.body().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Grpc {
    pub(super) fields: FieldWriter,
    render: Option<Arc<RenderStatus>>,
}

/// The status as header fields; `None`: the built-in status is sent.
type RenderStatus = dyn Fn(&Refusal<'_>) -> Option<HeaderMap> + Send + Sync;

impl Grpc {
    /// The default: with the [fields](Fields::Draft11) of draft 11 in the metadata.
    pub const fn new() -> Self {
        Self {
            fields: FieldWriter::new(Fields::Draft11),
            render: None,
        }
    }

    /// Which rate-limit fields are sent, to admitted and refused callers alike.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = FieldWriter::new(fields);
        self
    }

    /// The status, with the metadata of a refusal that it does not have.
    pub(super) fn response<B: FromBytes>(
        &self,
        content_type: &'static str,
        refusal: &Refusal<'_>,
    ) -> Response<B> {
        let rendered = self.render.as_ref().and_then(|render| render(refusal));
        let mut response = Response::new(B::from_bytes(Bytes::new()));
        *response.headers_mut() = rendered.unwrap_or_else(|| built_in(refusal));
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static(content_type);
        set(headers, header::CONTENT_TYPE, content_type);
        if let Some(millis) = refusal.decision().and_then(pushback_millis) {
            set_if_absent(headers, GRPC_PUSHBACK, HeaderValue::from(millis));
        }
        if let Reason::Rejected(rejection) = refusal.reason() {
            *response.extensions_mut() = rejection.extensions().clone();
        }
        self.fields.complete(refusal, &mut response);
        response
    }
}

impl<ReqB, ResB: FromBytes, E> Respond<Request<ReqB>, Response<ResB>, E> for Grpc {
    type Error = E;

    fn answer(&self, request: &Request<ReqB>, refusal: Refusal<'_>) -> Result<Response<ResB>, E> {
        let refusal = refusal.of_request(request);
        let content_type = content_type(request.headers()).unwrap_or(GRPC);
        Ok(self.response(content_type, &refusal))
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
        self.fields.dialect() != Fields::Off
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        self.fields.add(decision, response.headers_mut());
        retry_after::lengthen(decision, response.headers_mut());
    }
}

/// The content type of the answer to a gRPC or gRPC-Web request: a `POST` with one of theirs. No
/// other method makes a gRPC call, and a cache may keep a 200 for a `GET` and serve it to
/// everybody.
pub(super) fn content_type_of_call<B>(request: &Request<B>) -> Option<&'static str> {
    match *request.method() {
        Method::POST => content_type(request.headers()),
        _ => None,
    }
}

/// The content type of the answer to a request with one of gRPC's content types.
fn content_type(request: &HeaderMap) -> Option<&'static str> {
    let asked = request.get(header::CONTENT_TYPE)?.as_bytes();
    let subtype = strip_prefix(asked, GRPC.as_bytes())?;
    // `application/grpc`, with `+proto` or another encoding, or with parameters.
    let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
    let answers = [
        ("", GRPC),
        ("-web", "application/grpc-web+proto"),
        ("-web-text", "application/grpc-web-text+proto"),
    ];
    let is_asked = |suffix: &str| strip_prefix(subtype, suffix.as_bytes()).is_some_and(ends);
    let (_, answer) = answers.into_iter().find(|(suffix, _)| is_asked(suffix))?;
    Some(answer)
}

/// The built-in status, with the gRPC code for its HTTP status.
fn built_in(refusal: &Refusal<'_>) -> HeaderMap {
    let message = refusal.message();
    let mut headers = HeaderMap::new();
    let code = HeaderValue::from(code_of(refusal.status()));
    set(&mut headers, GRPC_STATUS, code);
    set(&mut headers, GRPC_MESSAGE, percent_encoded(&message));
    if let Some(decision) = refusal.decision() {
        let details = STANDARD_NO_PAD.encode(refusal_details(decision, &message));
        set(&mut headers, GRPC_DETAILS, ascii(details));
    }
    headers
}

/// The bytes of `grpc-status-details-bin`: only policy names and numbers, and nothing that a caller
/// has sent.
fn refusal_details(decision: &Decision, message: &str) -> Vec<u8> {
    let policies = decision.policies().iter();
    let violations = policies
        .filter(|policy| !policy.is_admitted())
        .map(|policy| {
            let description = match () {
                () if policy.never_fits() => "the cost is more than the limit",
                () if policy.counts_in_flight() => "as many requests are in flight as may be",
                () => "the limit is used up",
            };
            (policy.policy(), description, policy.limit())
        });
    let retry_info = decision.retry_after().map(protobuf::retry_info);
    let quota_failure = protobuf::quota_failure(violations);
    let details: Vec<_> = retry_info.into_iter().chain([quota_failure]).collect();
    protobuf::status(RESOURCE_EXHAUSTED, message, &details)
}

/// The wait in whole milliseconds, rounded up; negative means never (gRFC A6). `None` if the wait
/// is not known: callers then use their own backoff.
fn pushback_millis(decision: &Decision) -> Option<i32> {
    match decision.retry_after() {
        Some(wait) => Some(i32::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX)),
        None => decision.never_fits().then_some(-1),
    }
}

fn code_of(status: StatusCode) -> u16 {
    match status.as_u16() {
        400 => 3,  // INVALID_ARGUMENT
        401 => 16, // UNAUTHENTICATED
        403 => 7,  // PERMISSION_DENIED
        404 => 5,  // NOT_FOUND
        429 => RESOURCE_EXHAUSTED,
        503 => 14,       // UNAVAILABLE
        500..=599 => 13, // INTERNAL
        _ => 2,          // UNKNOWN
    }
}

/// A text in the encoding of `grpc-message`, where anything but printable ASCII becomes `%XX`.
fn percent_encoded(text: &str) -> HeaderValue {
    let mut message = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => message.push(char::from(byte)),
            _ => message.push_str(&format!("%{byte:02X}")),
        }
    }
    ascii(message)
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc")
            .field("fields", &self.fields)
            .field("has_closure", &self.render.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests;
