//! The keys: whose bucket a request is charged to.
//!
//! | extractor | one bucket per | without a key |
//! |---|---|---|
//! | [`Global`] | nothing: one for everyone | there always is one |
//! | [`PeerIp`] | address at the other end of the connection | 500: the server does not know it |
//! | [`ClientIp`] | address that a trusted proxy names | the proxy's address; 500 without a peer |
//! | [`Header`] | value of a header field | 400, or your choice |
//! | `MatchedRoute` (feature `axum`) | route pattern, and one for no route | there always is one |
//! | [`FromExtension`] | value that an outer layer put into the extensions: a user, a plan | 500, or no limit |
//! | [`from_fn()`] | key that a closure returns | the closure's choice |
//! | `(A, B)` and longer tuples | combination of the members' keys | the choice of the first member without one |
//!
//! # An extractor of your own
//!
//! ```
//! use http::{Request, StatusCode};
//! use tollgate::key::KeyExtractor;
//!
//! #[derive(Clone)]
//! struct Tenant(String);
//!
//! #[derive(Debug, Clone)]
//! struct ByTenant;
//!
//! impl<B> KeyExtractor<Request<B>> for ByTenant {
//!     type Key = String;
//!     type Rejection = (StatusCode, &'static str);
//!     fn extract(&self, request: &Request<B>) -> Result<Option<String>, Self::Rejection> {
//!         let tenant = request.extensions().get::<Tenant>().ok_or((StatusCode::UNAUTHORIZED, "sign in first"))?;
//!         Ok(Some(tenant.0.to_lowercase()))
//!     }
//! }
//!
//! let request = Request::builder().extension(Tenant("Acme".to_owned())).body(()).unwrap();
//! assert_eq!(ByTenant.extract(&request), Ok(Some("acme".to_owned())));
//! ```
//!
//! [`KeyExtractor`] says what it must and must not do. Its key can be any value that is `Clone`,
//! `Hash` and `Eq`. In a store that many processes share it must also be a `PortableKey` (feature
//! `redis`). The keys of the extractors here are portable, and so are text, numbers and tuples of
//! them.
//!
//! # A key must be hard to change
//!
//! Whoever can choose a key freely has a fresh bucket in each request, so a limit is as good as its
//! key.
//!
//! - **Addresses.** Anyone can send a header that names an address. `PeerIp` reads no header.
//!   `ClientIp` reads one, and only from the proxies that you name: a block that is too large is an
//!   open door, and a block that is too small puts all users of a forgotten proxy into one bucket.
//!   One caller may have many addresses (an IPv6 prefix: see [`PeerIp::ipv6_prefix`]), and many
//!   callers may have one (a company, a mobile network).
//! - **Credentials.** Anyone can make up an API key. Put the limiter behind the layer that verifies
//!   it, or limit by address as well, so that guessing keys is limited too.
//! - **Paths.** Use `MatchedRoute` and not the path: `/login`, `//login` and `/%6cogin` may mean
//!   the same.
//! - **Spelling.** The extractors here compare bytes. Only the code that checks a name knows
//!   whether `Bob` is `bob`, and whether an `é` of one code point is an `é` of two (Unicode's NFC
//!   and NFD). Fold and normalise in your extractor as it does, or take the name from it with
//!   [`FromExtension`].

use std::hash::Hash;

#[cfg(feature = "layer")]
mod address;
#[cfg(feature = "layer")]
mod client_ip;
#[cfg(feature = "layer")]
mod extractor;
#[cfg(feature = "layer")]
mod from_extension;
#[cfg(feature = "layer")]
mod from_fn;
#[cfg(feature = "layer")]
mod global;
#[cfg(feature = "layer")]
mod header;
#[cfg(feature = "axum")]
mod matched_route;
#[cfg(feature = "layer")]
mod peer_ip;
#[cfg(feature = "layer")]
mod percentile;
#[cfg(feature = "redis")]
mod portable;
#[cfg(feature = "layer")]
mod rejection;
#[cfg(feature = "layer")]
mod tuple;

#[cfg(feature = "layer")]
pub use self::{
    client_ip::ClientIp,
    extractor::KeyExtractor,
    from_extension::FromExtension,
    from_fn::{FromFn, from_fn},
    global::Global,
    header::{Header, HeaderKey},
    peer_ip::PeerIp,
    percentile::percentile,
    rejection::{MissingKey, Rejection},
    tuple::TupleRejection,
};
#[cfg(feature = "rules")]
pub(crate) use from_extension::missing as missing_extension;
#[cfg(feature = "axum")]
pub(crate) use matched_route::matched_route;
#[cfg(feature = "axum")]
pub use matched_route::{MatchedRoute, RouteKey};
#[cfg(feature = "redis")]
pub(crate) use portable::DigestKey;
#[cfg(feature = "redis")]
pub use portable::{KeyParts, PortableKey};

/// Without axum no request has a matched route.
#[cfg(all(feature = "rules", not(feature = "axum")))]
pub(crate) fn matched_route<B>(_request: &http::Request<B>) -> Option<&str> {
    None
}

/// A key of a bucket: any `Clone + Hash + Eq` value that can be sent between threads.
///
/// If you derive these traits, skip the rest. If you write them, a
/// [`LocalStore`](crate::store::LocalStore) runs your code in calls about other keys as well:
///
/// - **`Hash` and `Eq`** (and the `Borrow` of a borrowed form) run under a lock. They must not call
///   a limiter of the same store: the thread would deadlock. They must not block or take long. They
///   must agree with each other, and not change while a key lives.
/// - **`Clone`** (`to_owned`, of a borrowed form) and **`Drop`** run without a lock: they may
///   block, and call the limiter. A key is dropped in a call about another one; calls that `Drop`
///   makes evict no further keys.
/// - **A panic** in any of them reaches the caller. No other key is charged, admitted or evicted
///   because of it, and no room for keys is lost. If `Drop` panicked, the call has taken effect.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key: it must be `Clone + Hash + Eq + Send + Sync + 'static`",
    label = "not usable as a key",
    note = "derive `Clone, PartialEq, Eq, Hash` for it, or extract something that has them (a `String`, a number, an `IpAddr`)"
)]
pub trait Key: Clone + Hash + Eq + Send + Sync + 'static {}

// Without this the compiler would name `Hash` and `Eq`, in one message each, and never `Key`.
#[diagnostic::do_not_recommend]
impl<K: Clone + Hash + Eq + Send + Sync + 'static> Key for K {}

#[cfg(all(test, feature = "layer"))]
mod tests;
