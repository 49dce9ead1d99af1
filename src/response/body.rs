//! Makes the body of an answer in the service's own body type.

use std::mem;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::{
    BodyExt, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};

use super::body_end::{BodyEnd, WatchedBody};

/// Makes the body of an answer, such as a 429, in the service's own body type, so that no response
/// is wrapped or boxed.
///
/// It is implemented for axum's and tonic's `Body` (with the features of those names), for `Full`,
/// `BoxBody` and `UnsyncBoxBody` of `http-body-util`, and for [`Bytes`] and `String`. If
/// another layer, such as compression, wraps the body, put the limit inside of that layer, or
/// implement this trait:
///
/// # Example: a body type of your own
///
/// ```
/// use tollgate::response::FromBytes;
/// # use bytes::Bytes;
///
/// enum Page {
///     Ready(Bytes),
///     Streamed(std::fs::File),
/// }
///
/// impl FromBytes for Page {
///     fn from_bytes(bytes: Bytes) -> Self {
///         Page::Ready(bytes)
///     }
/// }
/// # let Page::Ready(bytes) = Page::from_bytes(Bytes::from_static(b"over the limit")) else { panic!() };
/// # assert_eq!(bytes, "over the limit");
/// ```
///
/// # What an implementor must do
///
/// A body that is made from no bytes must say at once that its stream has ended
/// (`http_body::Body::is_end_stream`). Otherwise a gRPC caller gets an empty frame after its
/// trailers.
#[diagnostic::on_unimplemented(
    message = "a refusal cannot be answered with a body of type `{Self}`",
    label = "this body cannot be made from bytes",
    note = "implement `tollgate::response::FromBytes` for it: `fn from_bytes(bytes: Bytes) -> Self`",
    note = "axum's and tonic's bodies need the features `axum` and `tonic`; if another layer wraps the body, put the limit inside of that layer"
)]
pub trait FromBytes {
    /// The body that sends these bytes and nothing else.
    fn from_bytes(bytes: Bytes) -> Self;

    /// Wraps this body so that it reports its end: it keeps `end` until then, and so what the
    /// request holds.
    ///
    /// By default nothing is kept. A request [in flight](crate::algorithm::InFlight) ends then with
    /// the head of its response, and one that is [settled at the
    /// end](crate::RateLimitLayer::settle_at_end) is charged all that it holds.
    #[must_use]
    fn keeping(self, end: BodyEnd) -> Self
    where
        Self: Sized,
    {
        end.unknown();
        self
    }
}

/// Lets the body of a response keep what its request holds.
pub(super) fn keep_until_end<B: FromBytes>(response: &mut Response<B>, mut end: BodyEnd) {
    end.begin(response.status(), response.headers());
    let body = mem::replace(response.body_mut(), B::from_bytes(Bytes::new()));
    *response.body_mut() = body.keeping(end);
}

#[cfg(feature = "axum")]
impl FromBytes for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        Self::from(bytes)
    }

    fn keeping(self, end: BodyEnd) -> Self {
        WatchedBody::boxed(self, end, Self::new)
    }
}

#[cfg(feature = "tonic")]
impl FromBytes for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }

    fn keeping(self, end: BodyEnd) -> Self {
        WatchedBody::boxed(self, end, Self::new)
    }
}

impl FromBytes for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    fn keeping(self, end: BodyEnd) -> Self {
        end.in_memory(self.size_hint().lower());
        self
    }
}

impl<E: 'static> FromBytes for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed()
    }

    fn keeping(self, end: BodyEnd) -> Self {
        WatchedBody::boxed(self, end, Self::new)
    }
}

impl<E: 'static> FromBytes for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        let body = Full::new(bytes).map_err(|never| match never {});
        body.boxed_unsync()
    }

    fn keeping(self, end: BodyEnd) -> Self {
        WatchedBody::boxed(self, end, Self::new)
    }
}

impl FromBytes for Bytes {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes
    }

    fn keeping(self, end: BodyEnd) -> Self {
        end.in_memory(self.len() as u64);
        self
    }
}

/// Invalid UTF-8 becomes U+FFFD; only a renderer of your own can write it.
impl FromBytes for String {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::from_utf8_lossy(&bytes).into_owned()
    }

    fn keeping(self, end: BodyEnd) -> Self {
        end.in_memory(self.len() as u64);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `BodyExt`'s supertrait, so that no further dependency is needed.
    macro_rules! assert_body {
        ($body:ty) => {{
            let ends_at_once = |bytes: &'static [u8]| {
                let mut body = std::pin::pin!(<$body>::from_bytes(Bytes::from_static(bytes)));
                let ended = axum::body::HttpBody::is_end_stream(&*body);
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                let frame = axum::body::HttpBody::poll_frame(body.as_mut(), &mut cx);
                (ended, frame)
            };
            let (ended, _) = ends_at_once(b"");
            assert!(ended, "{}", stringify!($body));
            let (ended, frame) = ends_at_once(b"no");
            assert!(!ended, "{}", stringify!($body));
            let std::task::Poll::Ready(Some(Ok(frame))) = frame else {
                panic!("{} has no frame", stringify!($body));
            };
            assert_eq!(frame.into_data().ok().unwrap(), "no");
        }};
    }

    #[test]
    fn a_body_of_no_bytes_has_ended_and_any_other_sends_them() {
        #[cfg(feature = "axum")]
        assert_body!(axum::body::Body);
        #[cfg(feature = "tonic")]
        assert_body!(tonic::body::Body);
        assert_body!(Full<Bytes>);
        assert_body!(BoxBody<Bytes, std::io::Error>);
        assert_body!(UnsyncBoxBody<Bytes, std::io::Error>);
        assert_body!(String);
    }

    #[test]
    fn bytes_are_kept_as_they_are() {
        let bytes = Bytes::from_static(b"\xFFover");
        assert_eq!(Bytes::from_bytes(bytes.clone()), bytes);
        assert_eq!(String::from_bytes(bytes), "\u{FFFD}over");
    }
}
