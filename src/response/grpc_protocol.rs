//! The gRPC protocol of a request, and the answers in it: a status in the header fields, and no
//! body.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

#[cfg(feature = "tonic")]
use super::{Reason, Refusal, set_field::set_if_absent};
use super::{
    body::FromBytes,
    field_writer::FieldWriter,
    protobuf::{self, Violation},
    retry_after,
    set_field::{set, set_no_store},
};
use crate::decision::Decision;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// The longest text of a rejection that is sent; a longer one becomes the reason phrase.
const MAX_MESSAGE_LEN: usize = 1_024;

/// The protocol of a gRPC request, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrpcProtocol {
    Grpc,
    Web,
    WebText,
}

impl GrpcProtocol {
    /// The protocol of a `POST` with one of gRPC's content types. No other method makes a gRPC
    /// call, and a cache may keep a 200 for a `GET` and serve it to everybody.
    pub(super) fn of_request<B>(request: &Request<B>) -> Option<Self> {
        (request.method() == Method::POST)
            .then(|| Self::of_content_type(request.headers()))
            .flatten()
    }

    /// The protocol of a content type.
    pub(super) fn of_content_type(headers: &HeaderMap) -> Option<Self> {
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
    pub(super) fn refuse<B: FromBytes>(
        self,
        decision: Decision,
        fields: &FieldWriter,
    ) -> Response<B> {
        let text = refusal_text(&decision);
        let mut response = self.status(RESOURCE_EXHAUSTED, HeaderValue::from_static(text));
        let headers = response.headers_mut();
        let details = STANDARD_NO_PAD.encode(refusal_details(&decision));
        // Base64 is ASCII, so this never fails.
        if let Ok(details) = HeaderValue::try_from(details) {
            set(headers, GRPC_DETAILS, details);
        }
        if let Some(millis) = pushback_millis(&decision) {
            set(headers, GRPC_PUSHBACK, HeaderValue::from(millis));
        }
        retry_after::set(&decision, headers);
        fields.add(&decision, headers);
        response.extensions_mut().insert(decision);
        response
    }

    /// The rejection with the gRPC code for its status; a plain-text body is the message.
    pub(super) fn reject<B: FromBytes>(self, rejection: Response<Bytes>) -> Response<B> {
        let (parts, body) = rejection.into_parts();
        let message = message_of(&parts.headers, &body).unwrap_or_else(|| {
            HeaderValue::from_static(parts.status.canonical_reason().unwrap_or("rejected"))
        });
        let mut response = self.status(code_of(parts.status), message);
        *response.extensions_mut() = parts.extensions;
        response
    }

    /// `UNAVAILABLE`, without rate-limit numbers.
    pub(super) fn unavailable<B: FromBytes>(self) -> Response<B> {
        let text = "rate limiting is temporarily unavailable";
        self.status(UNAVAILABLE, HeaderValue::from_static(text))
    }

    /// A status of the user's own, with the metadata of a refusal that it does not have.
    #[cfg(feature = "tonic")]
    pub(super) fn rendered(
        self,
        status: HeaderMap,
        refusal: &Refusal<'_>,
        fields: &FieldWriter,
    ) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        *headers = status;
        set(headers, header::CONTENT_TYPE, self.content_type());
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

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web+proto",
            Self::WebText => "application/grpc-web-text+proto",
        })
    }

    fn status<B: FromBytes>(self, code: u8, message: HeaderValue) -> Response<B> {
        let mut response = Response::new(B::from_bytes(Bytes::new()));
        let headers = response.headers_mut();
        set(headers, header::CONTENT_TYPE, self.content_type());
        set(headers, GRPC_STATUS, HeaderValue::from(u16::from(code)));
        set(headers, GRPC_MESSAGE, message);
        set_no_store(headers);
        response
    }
}

/// The message of a refusal.
pub(super) fn refusal_text(decision: &Decision) -> &'static str {
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
        .map(|policy| Violation {
            policy: policy.policy(),
            description: match () {
                () if policy.never_fits() => "the cost is more than the limit",
                () if policy.counts_in_flight() => "as many requests are in flight as may be",
                () => "the limit is used up",
            },
            limit: policy.limit(),
        });
    let quota_failure = protobuf::quota_failure(violations);
    let details = match decision.retry_after() {
        Some(wait) => vec![protobuf::retry_info(wait), quota_failure],
        None => vec![quota_failure],
    };
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

/// A plain-text body in the encoding of `grpc-message`: anything but printable ASCII becomes `%XX`.
fn message_of(headers: &HeaderMap, body: &[u8]) -> Option<HeaderValue> {
    let content_type = headers.get(header::CONTENT_TYPE)?.as_bytes();
    strip_prefix(content_type, b"text/plain")?;
    let text = std::str::from_utf8(body).ok()?.trim();
    if text.is_empty() || text.len() > MAX_MESSAGE_LEN {
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

/// Media types are case-insensitive (RFC 9110, section 8.3.1).
fn strip_prefix<'a>(value: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = value.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::response::sample::refused_for;

    fn rejected(status: u16, content_type: &str, text: &'static str) -> Response<Bytes> {
        let rejection = Response::builder()
            .status(status)
            .header("content-type", content_type);
        let rejection = rejection.body(Bytes::from_static(text.as_bytes())).unwrap();
        GrpcProtocol::Grpc.reject(rejection)
    }

    #[test]
    fn the_pushback_is_rounded_up_to_milliseconds_and_stays_an_int32() {
        let pushback = |micros| pushback_millis(&refused_for(Duration::from_micros(micros)));
        assert_eq!([1, 1_000, 1_001].map(pushback), [1, 1, 2].map(Some));
        assert_eq!(pushback(i32::MAX as u64 * 1_000), Some(i32::MAX));
        assert_eq!(pushback(i32::MAX as u64 * 1_000 + 1), Some(i32::MAX));
    }

    #[test]
    fn the_protocol_of_a_post_is_known_by_its_content_type() {
        let protocol = |content_type| {
            let request = Request::post("/").header(header::CONTENT_TYPE, content_type);
            GrpcProtocol::of_request(&request.body(()).unwrap())
        };
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;v=1",
        ] {
            assert_eq!(
                protocol(content_type),
                Some(GrpcProtocol::Grpc),
                "{content_type}"
            );
        }
        for content_type in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web; v=1",
        ] {
            assert_eq!(
                protocol(content_type),
                Some(GrpcProtocol::Web),
                "{content_type}"
            );
        }
        for content_type in [
            "application/grpc-web-text",
            "application/grpc-web-text+proto",
        ] {
            assert_eq!(
                protocol(content_type),
                Some(GrpcProtocol::WebText),
                "{content_type}"
            );
        }
        for content_type in [
            "",
            "application/json",
            "application/grpcx",
            "application/grpc-webs",
            "application/grpc-web-texts",
            "text/plain",
        ] {
            assert_eq!(protocol(content_type), None, "{content_type}");
        }
        assert_eq!(
            GrpcProtocol::of_request(&Request::post("/").body(()).unwrap()),
            None
        );
    }

    #[test]
    fn a_request_that_is_no_post_is_not_grpc_whatever_its_content_type() {
        for method in [
            Method::GET,
            Method::HEAD,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::CONNECT,
            Method::TRACE,
            Method::from_bytes(b"post").unwrap(),
        ] {
            for content_type in [
                "application/grpc",
                "application/grpc-web",
                "application/grpc-web-text",
            ] {
                let request = Request::builder().method(&method);
                let request = request.header(header::CONTENT_TYPE, content_type);
                assert_eq!(
                    GrpcProtocol::of_request(&request.body(()).unwrap()),
                    None,
                    "{method}"
                );
            }
        }
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
