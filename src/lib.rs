//! Rate limiting for tower services: axum, tonic, hyper, or any [`Service`](tower_service::Service)
//! at all.
//!
//! A limit has three parts: an [algorithm] says how much is let through, a [key] says which
//! requests are counted together, a [store] keeps the counts. Each can be changed without the
//! others.
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
//! A caller over the limit gets 429 with the time to wait in `Retry-After`, rounded up to seconds.
//! A gRPC caller gets `RESOURCE_EXHAUSTED` and a `RetryInfo`. Admitted callers see in the
//! `RateLimit` fields what they have left.
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
//! | Can I see whom a limit would refuse before it does? | [`RateLimitLayer::enforce`] |
//! | What if the store is down? | [`RateLimitLayer::on_store_error`] |
//! | Who is refused, how often, and how long does the store take? | [`observe`] |
//! | How do several processes share a limit? What if Redis is down? | `store::RedisStore` (feature `redis`) |
//! | What does Redis run? | whole scripts, in `src/store/redis/sent` |
//! | Can a request count against its address *and* its account? | [`EachOf`] |
//! | Can each plan have its own quota? Can quotas change while the program runs? | [`choice`] |
//! | Can limits be read from a file? | feature `serde`, and its chapter in `docs` |
//! | Can one file hold the limits of all routes? | feature `rules`, and the same chapter |
//! | How do I limit what is not a request? | [`RateLimiter`]; feature `local` alone is enough |
//! | How do I test my limits? | [`clock::ManualClock`] |
//!
//! # What it is not
//!
//! A limiter inside the process does not stop a flood that fills the network: when it sees a
//! request, the bytes have arrived. It protects the service behind it.
//!
//! # Features
//!
//! A feature only adds: it changes nothing that works without it.
//!
//! - none (`default-features = false`): [`Quota`], the [algorithms](algorithm), [`Decision`], and
//!   [`RateLimiter`] over a [store] of your own. Nothing here needs a runtime, a clock or HTTP; it
//!   builds for `wasm32-unknown-unknown`.
//! - `local`: [`store::LocalStore`] and [`clock::SystemClock`], for limits in one process. No HTTP
//!   and no runtime either.
//! - `layer` (includes `local`): [`RateLimitLayer`], the extractors in [`key`], and [`response`].
//! - `axum` (on by default, includes `layer`): [`key::PeerIp`] reads axum's `ConnectInfo`,
//!   [`key::MatchedRoute`] and [`RouteCosts`] its matched path, and refusals become axum bodies.
//! - `tonic` (includes `layer`): [`key::PeerIp`] reads tonic's connect info, and refusals become
//!   tonic bodies.
//! - `metrics`: `observe::Metrics` counts the outcomes of requests and of calls of a
//!   [`RateLimiter`], for Prometheus and others.
//! - `redis`: `store::RedisStore`, one limit for many processes over Redis or Valkey, and
//!   `key::PortableKey`, its keys. For a layer, add `layer`, `axum` or `tonic`; without them it
//!   serves a [`RateLimiter`].
//! - `reload`: `choice::Reloadable`, an algorithm whose quota changes while the program runs.
//! - `serde`: deserializes every algorithm from a map such as `{ quota = "20/s", burst = 40, name =
//!   "api" }`, and a tuple (or an [`EachOf`] of one) from a list of such maps; deserializes and
//!   serializes a [`Quota`] as text.
//! - `rules` (includes `layer`, `reload` and `serde`): `rules::Rules` reads the limits of all
//!   routes from one file, which can be replaced while the program runs.
//!
//! # Whose types are in the signatures
//!
//! | crate | types | feature |
//! |---|---|---|
//! | `http` | `Request`, `Response`, `Extensions`, `HeaderMap`, `HeaderName`, `Method`, `StatusCode`, `Uri` | `layer` |
//! | `http_body` | `Frame` | `layer` |
//! | `http_body_util` | `BoxBody`, `Full`, `UnsyncBoxBody` | `layer` |
//! | `bytes` | `Buf`, `Bytes` | `layer` |
//! | `tower_layer` | `Layer` | `layer` |
//! | `tower_service` | `Service` | `layer` |
//! | `axum_core` | `Body` | `axum` |
//! | `tonic` | `Body`, `Status` | `tonic` |
//! | `fred` | `Client`, `Pool`: a store from a URL needs neither | `redis` |
//! | `serde_core` | `Deserialize`, `Deserializer`, `Serialize` | `serde` |
//!
//! The signatures name no other crate, but for a hidden bound of `pin_project_lite` on `Unpin`. A
//! new major version of a crate in the table is a new major version of this crate. No type of
//! `metrics` or `tracing` is public, but your recorder or subscriber must fit their version: a new
//! major version of them is a new minor version of this crate. axum's `ConnectInfo` and
//! `MatchedPath` and tonic's connect info are read from the extensions of a request: of another
//! version than this crate's (axum 0.8, tonic 0.14) they are not found.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "layer", feature = "redis")),
    allow(
        dead_code,
        unused_imports,
        reason = "some items are used by the layer alone, or by the store in Redis alone"
    )
)]

#[macro_use]
pub mod algorithm;
pub mod choice;
pub mod clock;
#[cfg(feature = "serde")]
mod config;
mod decision;
#[cfg(doc)]
pub mod docs;
#[macro_use]
mod each_of;
mod error;
mod hold;
pub mod key;
mod limiter;
pub mod observe;
mod policy;
mod quota;
pub mod store;
mod timestamp;

#[cfg(feature = "layer")]
mod cost;
#[cfg(feature = "layer")]
mod keyed;
#[cfg(feature = "layer")]
mod layer;
#[cfg(feature = "layer")]
mod logged_once;
#[cfg(feature = "layer")]
pub mod response;
#[cfg(feature = "rules")]
pub mod rules;
#[cfg(feature = "layer")]
mod store_error;

pub use decision::{Decision, PolicyDecision};
pub use each_of::EachOf;
pub use error::{ConfigError, StoreError, StoreErrorKind};
pub use hold::{Hold, Settlement};
#[cfg(feature = "local")]
pub use limiter::LocalRateLimiter;
pub use limiter::{Call, RateLimiter};
pub use quota::Quota;
pub use timestamp::Timestamp;

#[cfg(feature = "layer")]
pub use self::{
    cost::Cost,
    layer::{
        LocalRateLimit, LocalRateLimitLayer, RateLimit, RateLimitLayer, ResponseFuture, options,
    },
    response::body_end::End,
    store_error::OnStoreError,
};
#[cfg(feature = "axum")]
pub use cost::RouteCosts;
/// The code in the README, which is compiled and run with the doc tests.
#[cfg(all(doctest, feature = "axum", feature = "redis", feature = "reload"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
