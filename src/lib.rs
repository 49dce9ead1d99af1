//! Rate limiting for tower services: axum, tonic, hyper, or any [`Service`](tower_service::Service)
//! at all.
//!
//! Three words make a limit: an [algorithm] says how much, a [store] keeps count, a [key] says of
//! whom. Each is changed without touching the others.
//!
//! ```
//! use axum::{Router, routing::get};
//! use tollgate::{Quota, RateLimitLayer};
//! use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};
//!
//! let limit = RateLimitLayer::new(
//!     TokenBucket::new(Quota::per_second(20)).burst(40),
//!     LocalStore::new(),
//!     PeerIp::new(),
//! );
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
//! # let _ = app;
//! ```
//!
//! A caller who asks for more is answered with 429, with the exact time to wait in `Retry-After`; a
//! gRPC caller with `RESOURCE_EXHAUSTED` and a `RetryInfo`. Admitted callers see in the `RateLimit`
//! fields what they have left.
//!
//! # Where to look
//!
//! | question | answer |
//! |---|---|
//! | Which algorithm for what? Is the formula right? | [`algorithm`] |
//! | Why does memory not grow? | [`store::LocalStore`] |
//! | Can the address be spoofed? | [`key::ClientIp`] |
//! | What is sent on a refusal? | [`response`] |
//! | Can some requests cost more, or nothing? | [`RateLimitLayer::cost`], [`RateLimitLayer::exempt`] |
//! | What if the store is down? | [`RateLimitLayer::on_store_error`] |
//! | How do several processes share a limit? What if Redis is down? | `store::RedisStore` (feature `redis`) |
//! | What does Redis run? | [`algorithm::Scripted`], and the `.lua` files beside the algorithms |
//! | Can a request count against its address *and* its account? | [`EachOf`] |
//! | Can each plan have numbers of its own? Can they change while the program runs? | [`choice`] |
//! | Can limits stand in a file? | the README, and feature `serde` |
//! | How do I limit what is not a request? | [`RateLimiter`] |
//! | How do I test my limits? | [`clock::ManualClock`] |
//!
//! # What it is not
//!
//! A limiter inside the process does not stop a flood that fills the network: by the time it sees a
//! request, the bytes have arrived. It protects the work behind it.
//!
//! # Features
//!
//! - `axum` (on by default): [`key::PeerIp`] reads axum's `ConnectInfo`, [`key::MatchedRoute`] and
//!   [`RouteCosts`] its matched path, and refusals become axum bodies.
//! - `tonic`: [`key::PeerIp`] reads tonic's connect info, and refusals become tonic bodies.
//! - `redis`: `store::RedisStore`, one limit for many processes over Redis or Valkey, and
//!   `key::PortableKey`, its keys.
//! - `reload`: `choice::Reloadable`, numbers that are replaced while they are in use.
//! - `serde`: every algorithm can be deserialized from a map such as `{ quota = "20/s", burst = 40,
//!   name = "api" }`, a tuple (and an [`EachOf`] of one) from a list of such maps, and [`Quota`]
//!   from and to its text.

#![forbid(unsafe_code)]

pub mod algorithm;
pub mod choice;
pub mod clock;
#[cfg(feature = "serde")]
mod config;
mod cost;
mod decision;
mod each_of;
mod error;
mod exempt;
pub mod key;
mod keyed;
mod layer;
mod lazy_arc;
mod limit;
mod limiter;
mod policy;
mod quota;
pub mod response;
pub mod store;
mod store_error;
mod told_once;

pub use clock::Timestamp;
pub use cost::Cost;
#[cfg(feature = "axum")]
pub use cost::RouteCosts;
pub use decision::{Decision, PolicyDecision};
pub use each_of::EachOf;
pub use error::{ConfigError, StoreError, StoreErrorKind};
pub use exempt::{Exempt, NoExemption};
pub use keyed::Keyed;
pub use layer::{
    Expose, Exposed, Hidden, InnerService, LocalRateLimit, LocalRateLimitLayer, Options, RateLimit,
    RateLimitLayer, ResponseFuture,
};
pub use limit::Limit;
pub use limiter::{LocalRateLimiter, RateLimiter};
pub use quota::Quota;
pub use store_error::{HandleStoreError, OnStoreError};

/// The code in the README, which is compiled and run with the doc tests.
#[cfg(all(doctest, feature = "axum", feature = "redis", feature = "reload"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
