//! The keys: whose bucket a request is charged to.

use std::{convert::Infallible, hash::Hash};

use bytes::Bytes;
use http::Response;

/// What a bucket can be found by: any `Clone + Hash + Eq` value that can be sent between threads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key: it must be `Clone + Hash + Eq + Send + Sync + 'static`",
    label = "not usable as a key",
    note = "derive `Clone, PartialEq, Eq, Hash` for it, or extract something that has them (a `String`, a number, an `IpAddr`)"
)]
pub trait Key: Clone + Hash + Eq + Send + Sync + 'static {}

impl<K: Clone + Hash + Eq + Send + Sync + 'static> Key for K {}

/// Says whose bucket a request is charged to.
#[diagnostic::on_unimplemented(
    message = "`{Self}` finds no key in requests of type `{Req}`",
    label = "extracts no key from `{Req}`",
    note = "implement `tollgate::key::KeyExtractor<{Req}>` for it, or use `tollgate::key::from_fn(|request: &{Req}| Ok(Some(..)))`",
    note = "`PeerIp`, `ClientIp`, `Header`, `MatchedRoute` and `FromExtension` need an `http::Request`"
)]
pub trait KeyExtractor<Req> {
    /// The key.
    type Key: Key;
    /// What is answered when there is no key but should be one.
    type Rejection: Rejection;

    /// The key of the request, `None` if no limit applies to it, or a rejection.
    ///
    /// # Errors
    ///
    /// The request has no key and must not pass without: it is answered with the rejection.
    fn extract(&self, request: &Req) -> Result<Option<Self::Key>, Self::Rejection>;
}

/// What becomes of a request that has no key but should have one.
pub trait Rejection {
    /// The answer to an HTTP caller. A gRPC caller gets the code that stands for the status, with a body of
    /// plain text as its message.
    fn into_response(self) -> Response<Bytes>;
}

impl Rejection for Infallible {
    fn into_response(self) -> Response<Bytes> {
        match self {}
    }
}

impl Rejection for Response<Bytes> {
    fn into_response(self) -> Response<Bytes> {
        self
    }
}
