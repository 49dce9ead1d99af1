//! The trait that finds the key of a request.

use super::{Key, Rejection};

/// Finds the key of a request, whose bucket it is charged to.
///
/// A full implementation is in the [module's documentation](super).
///
/// # What an implementor must do
///
/// - Return the same key for the same caller, however the request is spelled: unmap addresses, fold
///   case where it has no meaning.
/// - Keep the parts of a compound key apart: a tuple or a struct, not `format!("{a}:{b}")`.
/// - Keep the key small: the store keeps it. Digest values that callers can make long.
/// - Return `Err` if there is no key but should be one, and `None` only for requests that are not
///   to be limited.
///
/// # What an implementor must not do
///
/// - Panic on what a caller sends. (A panic reaches the caller of the service; nothing has been
///   charged.)
/// - Block or wait: it runs inside of `Service::call`. Do slow work in an outer layer, and put its
///   result into the request's extensions.
/// - Keep a slice of the request (a `Bytes`, a `HeaderValue`) in the key: it keeps the whole buffer
///   alive.
/// - Put anything from the request into the rejection.
#[diagnostic::on_unimplemented(
    message = "`{Self}` finds no key in requests of type `{Req}`",
    label = "extracts no key from `{Req}`",
    note = "implement `tollgate::key::KeyExtractor<{Req}>` for it, or use `tollgate::key::from_fn(|request: &{Req}| Ok::<_, std::convert::Infallible>(Some(..)))`",
    note = "the extractors of `tollgate::key` need an `http::Request`, except for `Global` and `from_fn`",
    note = "to limit by each of several keys, write as many of both: `EachOf((.., ..))` in the algorithm's place and `EachOf((.., ..))` in the key's"
)]
pub trait KeyExtractor<Req> {
    /// The key.
    type Key: Key;
    /// The answer if there is no key but should be one.
    type Rejection: Rejection;

    /// The key of the request, `None` if no limit applies to it, or a rejection.
    ///
    /// # Errors
    ///
    /// The request has no key and must not pass without one: it is answered with the rejection.
    fn extract(&self, request: &Req) -> Result<Option<Self::Key>, Self::Rejection>;
}
