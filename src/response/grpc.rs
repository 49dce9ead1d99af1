//! The answer in gRPC's own form: a status in the header fields, and no body.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};

use super::{
    Respond,
    body::FromBytes,
    fields::Fields,
    protobuf::{self, Violation},
    retry_after,
};
use crate::{decision::Decision, error::StoreError};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// More of a rejection's text than this is not worth a place in the header fields.
const LONGEST_MESSAGE: usize = 1_024;

/// Answers a refused request with `RESOURCE_EXHAUSTED` (8), whatever the request: for a service that speaks only gRPC.
///
/// [`Http`](super::Http) answers gRPC requests in the same way, and others as HTTP does. The answer is HTTP status
/// 200 with everything in one block of header fields (*Trailers-Only*) and no message:
///
/// - `grpc-status: 8`. `UNAVAILABLE` (14) is for a store that could not decide and requests that are then not let
///   through: client libraries take 14 for leave to try again at once.
/// - `grpc-status-details-bin`: a `google.rpc.Status` with `RetryInfo`, unless the cost can never fit, and
///   `QuotaFailure`, which names each policy that refuses and its limit.
/// - `grpc-retry-pushback-ms` (gRFC A6): the wait in milliseconds, or `-1` (do not try again) if the cost can never fit.
/// - `Retry-After` and the rate-limit [fields](Self::fields); an admitted call has these among its initial metadata.
///
/// A gRPC-Web request is answered with its own content type. In front of `tonic-web` or behind it, the caller sees
/// the same code; its CORS layer must expose `grpc-status`, `grpc-message` and `grpc-status-details-bin`.
///
/// # Example: what a caller over its limit receives
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// # use bytes::Bytes;
/// # use http::{Request, Response};
/// # use tollgate::{Decision, PolicyDecision, algorithm::{Outcome, Policy, Standing}};
/// use tollgate::response::{Grpc, Respond};
///
/// # let policy = Policy::new("window", &[5], Duration::from_secs(60)).named("trial").unwrap();
/// # let decision = Decision::of_one(PolicyDecision::new(&policy, Standing {
/// #     remaining: 0, outcome: Outcome::RefusedForMicros(1_500_000), replenished_after_micros: 1_500_000,
/// #     reset_after_micros: 1_500_000, delay_micros: 0,
/// # }));
/// # let request = Request::new(());
/// let refused: Result<Response<Bytes>, Infallible> = Grpc::new().refuse(&request, decision);
/// let response = refused.unwrap();
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["grpc-status"], "8");
/// assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1500");
/// assert!(response.body().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grpc {
    fields: Fields,
}

impl Grpc {
    /// The default: with the [fields](Fields::Draft11) of draft 11 among the metadata.
    pub const fn new() -> Self {
        Self {
            fields: Fields::Draft11,
        }
    }

    /// Which rate-limit fields are sent, to admitted and refused callers alike.
    #[must_use]
    pub const fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }
}

impl<ReqB, ResB: FromBytes, E> Respond<Request<ReqB>, Response<ResB>, E> for Grpc {
    type Error = E;

    fn refuse(&self, request: &Request<ReqB>, decision: Decision) -> Result<Response<ResB>, E> {
        let form = Form::of(request.headers()).unwrap_or(Form::Grpc);
        Ok(form.refuse(decision, self.fields))
    }

    fn reject(
        &self,
        request: &Request<ReqB>,
        rejection: Response<Bytes>,
    ) -> Result<Response<ResB>, E> {
        let form = Form::of(request.headers()).unwrap_or(Form::Grpc);
        Ok(form.reject(rejection))
    }

    fn unavailable(&self, request: &Request<ReqB>, _: &StoreError) -> Result<Response<ResB>, E> {
        let form = Form::of(request.headers()).unwrap_or(Form::Grpc);
        Ok(form.unavailable())
    }

    fn inner_error(&self, error: E) -> E {
        error
    }

    #[inline]
    fn annotates(&self) -> bool {
        self.fields != Fields::Off
    }

    fn annotate(&self, decision: &Decision, response: &mut Response<ResB>) {
        self.fields.add(decision, response.headers_mut());
        retry_after::lengthen(decision, response.headers_mut());
    }
}

/// Which of gRPC's forms a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Grpc,
    Web,
    WebText,
}

impl Form {
    /// The form that the content type of a request asks for: none, if it is not gRPC.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(header::CONTENT_TYPE)?.as_bytes();
        let subtype = strip_prefix(content_type, b"application/grpc")?;
        // `application/grpc`, with `+proto` or another encoding, or with parameters.
        let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
        if ends(subtype) {
            return Some(Self::Grpc);
        }
        let subtype = strip_prefix(subtype, b"-web")?;
        if ends(subtype) {
            return Some(Self::Web);
        }
        ends(strip_prefix(subtype, b"-text")?).then_some(Self::WebText)
    }

    /// `RESOURCE_EXHAUSTED`, with the decision in the extensions.
    pub(super) fn refuse<B: FromBytes>(self, decision: Decision, fields: Fields) -> Response<B> {
        let text = match decision.retry_after() {
            Some(_) => "rate limit exceeded",
            None => "the request costs more than can ever be let through at once",
        };
        let mut response = self.status(RESOURCE_EXHAUSTED, HeaderValue::from_static(text));
        let headers = response.headers_mut();
        let details = STANDARD_NO_PAD.encode(details(&decision, text));
        // Base64 is ASCII, so that there always is a value.
        if let Ok(details) = HeaderValue::try_from(details) {
            headers.insert(GRPC_DETAILS, details);
        }
        headers.insert(GRPC_PUSHBACK, HeaderValue::from(pushback_millis(&decision)));
        retry_after::set(&decision, headers);
        fields.add(&decision, headers);
        response.extensions_mut().insert(decision);
        response
    }

    /// The code that stands for the status of a rejection; its body is the message, if that is plain text.
    pub(super) fn reject<B: FromBytes>(self, rejection: Response<Bytes>) -> Response<B> {
        let (parts, body) = rejection.into_parts();
        let message = message_of(&parts.headers, &body).unwrap_or_else(|| {
            HeaderValue::from_static(parts.status.canonical_reason().unwrap_or("rejected"))
        });
        let mut response = self.status(code_of(parts.status), message);
        *response.extensions_mut() = parts.extensions;
        response
    }

    /// `UNAVAILABLE`, without a number: nobody knows any.
    pub(super) fn unavailable<B: FromBytes>(self) -> Response<B> {
        let text = "rate limiting is temporarily unavailable";
        self.status(UNAVAILABLE, HeaderValue::from_static(text))
    }

    fn status<B: FromBytes>(self, code: u8, message: HeaderValue) -> Response<B> {
        let mut response = Response::new(B::from_bytes(Bytes::new()));
        let content_type = match self {
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web+proto",
            Self::WebText => "application/grpc-web-text+proto",
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(code)));
        headers.insert(GRPC_MESSAGE, message);
        response
    }
}

/// The bytes of `grpc-status-details-bin`: names of policies and numbers, nothing that a caller has sent.
fn details(decision: &Decision, text: &str) -> Vec<u8> {
    let policies = decision.policies().iter();
    let violations = policies
        .filter(|policy| !policy.is_admitted())
        .map(|policy| Violation {
            policy: policy.policy(),
            description: if policy.never_fits() {
                "the cost is more than the limit"
            } else {
                "the limit is used up"
            },
            limit: policy.limit(),
        });
    let quota_failure = protobuf::quota_failure(violations);
    let details = match decision.retry_after() {
        Some(wait) => vec![protobuf::retry_info(wait), quota_failure],
        None => vec![quota_failure],
    };
    protobuf::status(RESOURCE_EXHAUSTED, text, &details)
}

/// The wait in whole milliseconds, rounded up; negative means never (gRFC A6).
fn pushback_millis(decision: &Decision) -> i32 {
    match decision.retry_after() {
        Some(wait) => i32::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX),
        None => -1,
    }
}

fn code_of(status: StatusCode) -> u8 {
    match status.as_u16() {
        400 => 3,  // INVALID_ARGUMENT
        401 => 16, // UNAUTHENTICATED
        403 => 7,  // PERMISSION_DENIED
        404 => 5,  // NOT_FOUND
        429 => RESOURCE_EXHAUSTED,
        503 => UNAVAILABLE,
        500..=599 => 13, // INTERNAL
        _ => 2,          // UNKNOWN
    }
}

/// A body of plain text in the encoding of `grpc-message`: whatever is not printable ASCII as `%XX`.
fn message_of(headers: &HeaderMap, body: &[u8]) -> Option<HeaderValue> {
    let content_type = headers.get(header::CONTENT_TYPE)?.as_bytes();
    strip_prefix(content_type, b"text/plain")?;
    let text = std::str::from_utf8(body).ok()?.trim();
    if text.is_empty() || text.len() > LONGEST_MESSAGE {
        return None;
    }
    let mut message = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            message.push(byte);
        } else {
            let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
            message.extend([b'%', digit(byte >> 4), digit(byte & 0xF)]);
        }
    }
    HeaderValue::from_bytes(&message).ok()
}

/// Media types know no case (RFC 9110, section 8.3.1).
fn strip_prefix<'a>(value: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = value.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
