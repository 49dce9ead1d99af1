//! Problem details in JSON (RFC 9457), and the problems without a decision.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

/// A response with this problem.
pub(super) fn problem(status: StatusCode, json: Bytes) -> Response<Bytes> {
    let mut response = Response::new(json);
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/problem+json");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// The problem of a store that is unavailable, without rate-limit numbers.
pub(super) fn unavailable() -> Response<Bytes> {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        Bytes::from_static(
            br#"{"title":"Service Unavailable","status":503,"detail":"Rate limiting is temporarily unavailable."}"#,
        ),
    )
}

/// The problem of a request that could not be counted, where a retry does not help.
pub(super) fn not_counted() -> Response<Bytes> {
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        Bytes::from_static(
            br#"{"title":"Internal Server Error","status":500,"detail":"The request could not be counted."}"#,
        ),
    )
}
