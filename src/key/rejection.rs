//! Ready-made answers to requests that have no key.

use std::{convert::Infallible, error::Error, fmt};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::Rejection;

/// Answers a request that has no key with this status, and this message as plain text.
///
/// The message is fixed when the program is compiled, so nothing of the request can leak into the answer.
///
/// # Example: a credential that is missing
///
/// ```
/// use http::StatusCode;
/// use tollgate::key::{MissingKey, Rejection};
///
/// let response = MissingKey::new(StatusCode::UNAUTHORIZED, "sign in first").into_response();
/// assert_eq!(response.status(), 401);
/// assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
/// assert_eq!(response.body(), "sign in first");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingKey {
    status: StatusCode,
    message: &'static str,
}

impl MissingKey {
    /// Answers with this status, and this message as plain text.
    pub const fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message }
    }

    /// The status of the answer.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The text of the answer.
    pub const fn message(&self) -> &'static str {
        self.message
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

impl Error for MissingKey {}

impl Rejection for MissingKey {
    fn into_response(self) -> Response<Bytes> {
        (self.status, self.message).into_response()
    }
}

/// The status and the text of the answer.
impl Rejection for (StatusCode, &'static str) {
    fn into_response(self) -> Response<Bytes> {
        let (status, message) = self;
        let mut response = Response::new(Bytes::from_static(message.as_bytes()));
        *response.status_mut() = status;
        response.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        response
    }
}

/// The status of the answer, which has no body.
impl Rejection for StatusCode {
    fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = self;
        response
    }
}

impl Rejection for Response<Bytes> {
    fn into_response(self) -> Response<Bytes> {
        self
    }
}

impl Rejection for Infallible {
    fn into_response(self) -> Response<Bytes> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_alone_is_an_answer_without_a_body() {
        let response = StatusCode::FORBIDDEN.into_response();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert!(response.body().is_empty());
        assert!(response.headers().is_empty());
    }

    #[test]
    fn a_missing_key_and_the_pair_it_stands_for_answer_alike() {
        let named = MissingKey::new(StatusCode::BAD_REQUEST, "no key").into_response();
        let pair = (StatusCode::BAD_REQUEST, "no key").into_response();
        assert_eq!(named.status(), pair.status());
        assert_eq!(named.headers(), pair.headers());
        assert_eq!(named.body(), pair.body());
    }

    #[test]
    fn a_missing_key_is_an_error_that_says_its_message() {
        let error: Box<dyn Error + Send + Sync> =
            MissingKey::new(StatusCode::BAD_REQUEST, "no key").into();
        assert_eq!(error.to_string(), "no key");
    }
}
