//! The request that a renderer answers, and why it is refused.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, header};

use super::retry_after::whole_seconds;
use crate::{decision::Decision, error::StoreErrorKind};

/// Why a request is answered in the inner service's place.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// It is over its limit: the decision has the wait and the policies that refuse.
    Limited(&'a Decision),
    /// It has no key and must have one: this is the key extractor's answer.
    Rejected(&'a Response<Bytes>),
    /// The store could not decide about it.
    StoreFailed(StoreErrorKind),
}

/// A refused request, for a [closure](super::Http::render): why it is refused, and its head.
#[derive(Clone, Copy)]
pub struct Refusal<'a> {
    reason: Reason<'a>,
    request: Option<RequestHead<'a>>,
}

#[derive(Clone, Copy)]
struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> Refusal<'a> {
    /// A refusal for this reason, without its request.
    pub fn new(reason: Reason<'a>) -> Self {
        Self {
            reason,
            request: None,
        }
    }

    /// The same, of this request.
    pub(super) fn of_request<B>(mut self, request: &'a Request<B>) -> Self {
        self.request = Some(RequestHead {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        });
        self
    }

    /// Why the request is refused.
    pub fn reason(&self) -> Reason<'a> {
        self.reason
    }

    /// The decision, if the request is over its limit.
    pub fn decision(&self) -> Option<&'a Decision> {
        match self.reason {
            Reason::Limited(decision) => Some(decision),
            Reason::Rejected(_) | Reason::StoreFailed(_) => None,
        }
    }

    /// The default status of the answer: 429 Too Many Requests (RFC 6585); that of the rejection;
    /// 503 while the store is unavailable; or 500 if the store is set up wrongly, so that a retry
    /// does not help.
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Reason::Rejected(rejection) => rejection.status(),
            Reason::StoreFailed(StoreErrorKind::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
            Reason::StoreFailed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What went wrong and what to do about it, for a person: one or two sentences without a line
    /// break. For a rejection it is its text, or the meaning of its status.
    pub fn message(&self) -> Cow<'a, str> {
        match self.reason {
            Reason::Limited(decision) => limited(decision),
            Reason::Rejected(rejection) => rejected(rejection),
            Reason::StoreFailed(StoreErrorKind::Unavailable) => {
                "Rate limiting is temporarily unavailable.".into()
            }
            Reason::StoreFailed(_) => "The request could not be counted.".into(),
        }
    }

    /// The method of the request; `None` in [`Http::response`](super::Http::response), which sees
    /// no request.
    pub fn method(&self) -> Option<&'a Method> {
        Some(self.request?.method)
    }

    /// The target of the request; `None` in [`Http::response`](super::Http::response), which sees
    /// no request.
    pub fn uri(&self) -> Option<&'a Uri> {
        Some(self.request?.uri)
    }

    /// The header fields of the request, such as `Accept`; `None` in
    /// [`Http::response`](super::Http::response), which sees no request.
    pub fn headers(&self) -> Option<&'a HeaderMap> {
        Some(self.request?.headers)
    }

    /// The extensions that outer layers have put into the request, such as a request id; `None` in
    /// [`Http::response`](super::Http::response), which sees no request.
    pub fn extensions(&self) -> Option<&'a Extensions> {
        Some(self.request?.extensions)
    }
}

fn limited(decision: &Decision) -> Cow<'static, str> {
    let Some(wait) = decision.retry_after() else {
        return match decision.never_fits() {
            true => "The request costs more than can ever be let through at once.".into(),
            false => {
                "Too many requests are in flight. Try again when one of them has ended.".into()
            }
        };
    };
    let seconds = whole_seconds(wait).max(1);
    let plural = if seconds == 1 { "" } else { "s" };
    format!("The rate limit is exceeded. Try again in {seconds} second{plural}.").into()
}

fn rejected(rejection: &Response<Bytes>) -> Cow<'_, str> {
    let reason = || rejection.status().canonical_reason();
    let text = plain_text(rejection).or_else(reason);
    text.unwrap_or("The request was rejected.").into()
}

/// The longest text of a rejection that is a message.
pub(super) const MAX_TEXT_LEN: usize = 1_024;

/// The text of a rejection, if its body is plain text, and not too long.
fn plain_text(rejection: &Response<Bytes>) -> Option<&str> {
    let content_type = rejection.headers().get(header::CONTENT_TYPE)?.as_bytes();
    let text = std::str::from_utf8(rejection.body()).ok()?.trim();
    strip_prefix(content_type, b"text/plain")?;
    (1..=MAX_TEXT_LEN).contains(&text.len()).then_some(text)
}

/// Media types are case-insensitive (RFC 9110, section 8.3.1).
pub(super) fn strip_prefix<'a>(value: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = value.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut refusal = f.debug_struct("Refusal");
        refusal
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::response::tests::{hopeless, refused_for};

    #[test]
    fn the_debug_form_of_a_refusal_keeps_the_request_to_itself() {
        let request = Request::get("/?token=s3cret").header("authorization", "s3cret");
        let request = request.body(()).unwrap();
        let decision = hopeless();
        let refusal = Refusal::new(Reason::Limited(&decision)).of_request(&request);
        let told = format!("{refusal:?}");
        assert!(told.contains("api") && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn a_refusal_shows_the_request_if_there_is_one() {
        let request = Request::put("/files?part=1").header("accept", "text/html");
        let request = request.extension(7_u32).body(()).unwrap();
        let decision = hopeless();
        let refusal = Refusal::new(Reason::Limited(&decision)).of_request(&request);
        assert_eq!(refusal.decision(), Some(&decision));
        assert_eq!(refusal.method(), Some(&Method::PUT));
        assert_eq!(refusal.uri().unwrap(), "/files?part=1");
        assert_eq!(refusal.headers().unwrap()["accept"], "text/html");
        assert_eq!(refusal.extensions().unwrap().get(), Some(&7_u32));
        let refusal = Refusal::new(Reason::StoreFailed(StoreErrorKind::Unavailable));
        assert_eq!((refusal.method(), refusal.uri()), (None, None));
        assert!(refusal.headers().is_none() && refusal.extensions().is_none());
        assert_eq!(refusal.decision(), None);
    }

    #[test]
    fn a_message_says_the_wait_or_that_there_is_none() {
        let said = |decision: Decision| {
            let message = Refusal::new(Reason::Limited(&decision)).message();
            message.into_owned()
        };
        assert!(said(refused_for(Duration::from_micros(1))).ends_with("in 1 second."));
        assert!(said(refused_for(Duration::from_millis(1_001))).ends_with("in 2 seconds."));
        assert!(said(hopeless()).ends_with("than can ever be let through at once."));
    }

    #[test]
    fn a_message_of_a_rejection_is_its_text_or_what_its_status_means() {
        let said = |content_type: &str, body: &'static [u8], status: u16| {
            let rejection = Response::builder().status(status);
            let rejection = rejection.header("content-type", content_type);
            let rejection = rejection.body(Bytes::from_static(body)).unwrap();
            let refusal = Refusal::new(Reason::Rejected(&rejection));
            assert_eq!(refusal.status(), status);
            refusal.message().into_owned()
        };
        assert_eq!(
            said("text/plain; charset=utf-8", b"no key\n", 400),
            "no key"
        );
        assert_eq!(said("text/plain", b" \n", 400), "Bad Request");
        assert_eq!(said("text/plain", b"\xFF", 401), "Unauthorized");
        assert_eq!(said("application/json", b"{}", 403), "Forbidden");
        assert_eq!(
            said("text/html", b"<p>no", 599),
            "The request was rejected."
        );
    }

    #[test]
    fn a_store_that_is_unavailable_is_a_503_and_one_that_no_retry_fixes_is_a_500() {
        for (kind, status) in [
            (StoreErrorKind::Unavailable, 503),
            (StoreErrorKind::Misconfigured, 500),
            (StoreErrorKind::InvalidInput, 500),
        ] {
            let refusal = Refusal::new(Reason::StoreFailed(kind));
            assert_eq!(refusal.status(), status);
            assert!(refusal.message().ends_with('.'));
        }
    }
}
