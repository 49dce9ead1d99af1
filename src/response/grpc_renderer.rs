//! The answers to gRPC calls: a status in the header fields, and no body.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::{
    Reason, Refusal,
    body::FromBytes,
    field_writer::FieldWriter,
    grpc_protocol::{GrpcProtocol, strip_prefix},
    protobuf, retry_after,
    set_field::{ascii, set, set_if_absent, set_no_store},
};
use crate::{decision::Decision, error::StoreErrorKind};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const RESOURCE_EXHAUSTED: u16 = 8;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

/// The longest text of a rejection that is sent; a longer one becomes the reason phrase.
const MAX_MESSAGE_LEN: usize = 1_024;

/// Answers gRPC calls, with the user's closure if there is one.
#[derive(Clone, Default)]
pub(super) struct GrpcRenderer {
    pub(super) closure: Option<Arc<RenderStatus>>,
}

/// The status as header fields; `None`: the built-in status is sent.
type RenderStatus = dyn Fn(&Refusal<'_>) -> Option<HeaderMap> + Send + Sync;

impl GrpcRenderer {
    /// The status, with the metadata of a refusal that it does not have.
    pub(super) fn answer<B: FromBytes>(
        &self,
        protocol: GrpcProtocol,
        refusal: &Refusal<'_>,
        fields: &FieldWriter,
    ) -> Response<B> {
        let rendered = self.closure.as_ref().and_then(|render| render(refusal));
        let mut response = Response::new(B::from_bytes(Bytes::new()));
        *response.headers_mut() = rendered.unwrap_or_else(|| built_in(refusal));
        let headers = response.headers_mut();
        set(headers, header::CONTENT_TYPE, protocol.content_type());
        match refusal.reason() {
            Reason::Limited(decision) => {
                if let Some(millis) = pushback_millis(decision) {
                    set_if_absent(headers, GRPC_PUSHBACK, HeaderValue::from(millis));
                }
                retry_after::set(decision, headers);
                fields.add_unless_rendered(decision, headers);
                response.extensions_mut().insert(decision.clone());
            }
            Reason::Rejected(rejection) => {
                *response.extensions_mut() = rejection.extensions().clone();
            }
            Reason::StoreFailed(_) => {}
        }
        set_no_store(response.headers_mut());
        response
    }
}

/// The built-in status: that of a rejection has the gRPC code for its HTTP status.
fn built_in(refusal: &Refusal<'_>) -> HeaderMap {
    let (code, message) = match refusal.reason() {
        Reason::Limited(decision) => (
            RESOURCE_EXHAUSTED,
            HeaderValue::from_static(refusal_text(decision)),
        ),
        Reason::Rejected(rejection) => (code_of(rejection.status()), message_of(rejection)),
        Reason::StoreFailed(StoreErrorKind::Unavailable) => (
            UNAVAILABLE,
            HeaderValue::from_static("rate limiting is temporarily unavailable"),
        ),
        Reason::StoreFailed(_) => (INTERNAL, HeaderValue::from_static("Internal Server Error")),
    };
    let mut headers = HeaderMap::new();
    set(&mut headers, GRPC_STATUS, HeaderValue::from(code));
    set(&mut headers, GRPC_MESSAGE, message);
    if let Some(decision) = refusal.decision() {
        let details = STANDARD_NO_PAD.encode(refusal_details(decision));
        set(&mut headers, GRPC_DETAILS, ascii(details));
    }
    headers
}

/// The message of a refusal.
fn refusal_text(decision: &Decision) -> &'static str {
    match decision.retry_after() {
        Some(_) => "rate limit exceeded",
        None if decision.never_fits() => {
            "the request costs more than can ever be let through at once"
        }
        None => "too many requests are in flight",
    }
}

/// The bytes of `grpc-status-details-bin`: only policy names and numbers, and nothing that a caller
/// has sent.
fn refusal_details(decision: &Decision) -> Vec<u8> {
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
    protobuf::status(RESOURCE_EXHAUSTED, refusal_text(decision), &details)
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
        503 => UNAVAILABLE,
        500..=599 => INTERNAL,
        _ => 2, // UNKNOWN
    }
}

/// A plain-text body in the encoding of `grpc-message`, where anything but printable ASCII becomes
/// `%XX`; or what the status means.
fn message_of(rejection: &Response<Bytes>) -> HeaderValue {
    let content_type = rejection.headers().get(header::CONTENT_TYPE);
    let is_text =
        content_type.is_some_and(|of| strip_prefix(of.as_bytes(), b"text/plain").is_some());
    let text = std::str::from_utf8(rejection.body())
        .unwrap_or_default()
        .trim();
    if !is_text || text.is_empty() || text.len() > MAX_MESSAGE_LEN {
        let reason = rejection.status().canonical_reason();
        return HeaderValue::from_static(reason.unwrap_or("rejected"));
    }
    let mut message = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => message.push(char::from(byte)),
            _ => message.push_str(&format!("%{byte:02X}")),
        }
    }
    ascii(message)
}

impl fmt::Debug for GrpcRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcRenderer")
            .field("has_closure", &self.closure.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::response::tests::refused_for;

    fn rejected(status: u16, content_type: &str, text: &'static str) -> Response<Bytes> {
        let rejection = Response::builder()
            .status(status)
            .header("content-type", content_type);
        let rejection = rejection.body(Bytes::from_static(text.as_bytes())).unwrap();
        let refusal = Refusal::new(Reason::Rejected(&rejection));
        GrpcRenderer::default().answer(GrpcProtocol::Grpc, &refusal, &FieldWriter::default())
    }

    #[test]
    fn the_pushback_is_rounded_up_to_milliseconds_and_stays_an_int32() {
        let pushback = |micros| pushback_millis(&refused_for(Duration::from_micros(micros)));
        assert_eq!([1, 1_000, 1_001].map(pushback), [1, 1, 2].map(Some));
        assert_eq!(pushback(i32::MAX as u64 * 1_000), Some(i32::MAX));
        assert_eq!(pushback(i32::MAX as u64 * 1_000 + 1), Some(i32::MAX));
    }

    #[test]
    fn a_rejection_becomes_the_code_for_its_status() {
        for (status, code) in [
            (400, "3"),
            (401, "16"),
            (403, "7"),
            (404, "5"),
            (418, "2"),
            (429, "8"),
            (500, "13"),
            (503, "14"),
        ] {
            let response = rejected(status, "text/plain", "no");
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["grpc-status"], code, "{status}");
            assert_eq!(response.headers()["cache-control"], "no-store", "{status}");
            assert!(response.body().is_empty());
        }
    }

    #[test]
    fn the_message_of_a_rejection_is_its_plain_text_percent_encoded() {
        let message = |content_type, text| {
            let response = rejected(400, content_type, text);
            response.headers()["grpc-message"]
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(message("text/plain; charset=utf-8", "no key\n"), "no key");
        assert_eq!(
            message("text/plain", "100 % ü\r\nx"),
            "100 %25 %C3%BC%0D%0Ax"
        );
        assert_eq!(message("application/json", "{}"), "Bad Request");
        assert_eq!(message("text/plain", ""), "Bad Request");
        const TEXT: &str = match std::str::from_utf8(&[b'x'; MAX_MESSAGE_LEN + 1]) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        };
        let longest = &TEXT[1..];
        assert_eq!(message("text/plain", longest), longest);
        assert_eq!(message("text/plain", TEXT), "Bad Request");
    }
}
