//! Makes the body of an answer in the service's own body type.

use bytes::Bytes;
use http_body_util::{
    BodyExt, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};

use crate::hold::Hold;

use super::held_body::HeldBody;

/// Makes the body of an answer, such as a 429, in the service's own body type, so that no response
/// is wrapped or boxed.
///
/// It is implemented for axum's and tonic's `Body` (with the features of those names), for `Full`,
/// `BoxBody` and `UnsyncBoxBody` of `http-body-util`, and for [`Bytes`], `Vec<u8>` and `String`. If
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

    /// This body, keeping the hold of a request [in flight](crate::algorithm::InFlight) until the
    /// body has ended or is dropped.
    ///
    /// By default the hold is dropped at once. That is right for a body that is in memory; a
    /// streamed body must keep it.
    #[must_use]
    fn keeping(self, hold: Hold) -> Self
    where
        Self: Sized,
    {
        drop(hold);
        self
    }
}

#[cfg(feature = "axum")]
impl FromBytes for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            Self::empty()
        } else {
            Self::from(bytes)
        }
    }

    fn keeping(self, hold: Hold) -> Self {
        HeldBody::boxed(self, hold, Self::new)
    }
}

#[cfg(feature = "tonic")]
impl FromBytes for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }

    fn keeping(self, hold: Hold) -> Self {
        HeldBody::boxed(self, hold, Self::new)
    }
}

impl FromBytes for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

impl<E: 'static> FromBytes for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed()
    }

    fn keeping(self, hold: Hold) -> Self {
        HeldBody::boxed(self, hold, Self::new)
    }
}

impl<E: 'static> FromBytes for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        let body = Full::new(bytes).map_err(|never| match never {});
        body.boxed_unsync()
    }

    fn keeping(self, hold: Hold) -> Self {
        HeldBody::boxed(self, hold, Self::new)
    }
}

impl FromBytes for Bytes {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes
    }
}

impl FromBytes for Vec<u8> {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }
}

/// Invalid UTF-8 becomes U+FFFD; only a renderer of your own can write it.
impl FromBytes for String {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::from_utf8_lossy(&bytes).into_owned()
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
        assert_eq!(Vec::from_bytes(bytes.clone()), bytes);
        assert_eq!(String::from_bytes(bytes), "\u{FFFD}over");
    }
}
