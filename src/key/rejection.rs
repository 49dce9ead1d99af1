//! The answers to requests that have no key but should have one.

use std::{borrow::Cow, convert::Infallible, error::Error, fmt};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use crate::logged_once::LoggedOnce;

/// The answer to a request that has no key but should have one.
///
/// A status, a status with a text, and a whole response are rejections, and so is [`MissingKey`].
/// Extractors that always find a key use [`Infallible`](std::convert::Infallible).
///
/// # Example: a rejection of your own
///
/// ```
/// use bytes::Bytes;
/// use http::Response;
/// use tollgate::key::Rejection;
///
/// struct SignInFirst;
///
/// impl Rejection for SignInFirst {
///     fn into_response(self) -> Response<Bytes> {
///         let response = Response::builder().status(401).header("www-authenticate", "Bearer");
///         response.body(Bytes::new()).expect("the parts are fixed and valid")
///     }
/// }
///
/// assert_eq!(SignInFirst.into_response().status(), 401);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer to a request without a key",
    label = "not a rejection",
    note = "answer with a `http::StatusCode`, a `(http::StatusCode, &'static str)` or a `tollgate::key::MissingKey`, or implement `tollgate::key::Rejection`"
)]
pub trait Rejection {
    /// The answer to an HTTP caller. A gRPC caller gets the gRPC code for the status, with a
    /// plain-text body as its message.
    fn into_response(self) -> Response<Bytes>;
}

/// Answers a request that has no key with this status, and this message as plain text.
///
/// The message is fixed when the program is compiled, so nothing of the request can leak into the
/// answer. The message of [`Header`](super::Header) names the field, and never its value.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKey {
    status: StatusCode,
    message: Cow<'static, str>,
}

impl MissingKey {
    /// Answers with this status, and this message as plain text.
    pub const fn new(status: StatusCode, message: &'static str) -> Self {
        let message = Cow::Borrowed(message);
        Self { status, message }
    }

    /// The rejection of a request without a header field, or with more than one; logged once per
    /// field.
    pub(super) fn of_header(name: &HeaderName, what: &'static str) -> Self {
        static LOGGED: LoggedOnce = LoggedOnce::new();

        if LOGGED.is_new(name.as_str()) {
            tracing::warn!(
                name: "key.header_missing",
                target: "tollgate::key",
                header = %name,
                "a request {what}: such requests are answered with 400, and this is logged once per header"
            );
        }
        Self {
            status: StatusCode::BAD_REQUEST,
            message: Cow::Owned(format!("the request {what}: {name}")),
        }
    }

    /// The status of the answer.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The text of the answer.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for MissingKey {}

impl Rejection for MissingKey {
    fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(match self.message {
            Cow::Borrowed(message) => Bytes::from_static(message.as_bytes()),
            Cow::Owned(message) => Bytes::from(message),
        });
        *response.status_mut() = self.status;
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

/// An answer with this status and this text.
impl Rejection for (StatusCode, &'static str) {
    fn into_response(self) -> Response<Bytes> {
        let (status, message) = self;
        MissingKey::new(status, message).into_response()
    }
}

/// An answer with this status and no body.
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
    fn a_response_is_answered_as_it_is() {
        let response = Response::builder()
            .status(StatusCode::IM_A_TEAPOT)
            .header("x-tea", "green");
        let response = response.body(Bytes::from_static(b"no coffee")).unwrap();
        let answer = response.into_response();
        assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(answer.headers()["x-tea"], "green");
        assert_eq!(answer.body(), "no coffee");
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
