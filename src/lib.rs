//! Rate limiting for tower services.

#![forbid(unsafe_code)]

pub mod algorithm;
pub mod clock;
mod cost;
mod decision;
mod error;
pub mod key;
mod limiter;
mod policy;
mod quota;
pub mod response;
pub mod store;

pub use clock::Timestamp;
pub use decision::{Decision, PolicyDecision};
pub use error::{ConfigError, StoreError, StoreErrorKind};
pub use limiter::RateLimiter;
pub use quota::Quota;
