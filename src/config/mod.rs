//! Limits from configuration: a quota from a text, an algorithm from a map of named fields.
//!
//! What fields an algorithm has, and how it is made from them, stands beside the algorithm:
//! `algorithm::described`. Here `algorithm` reads them.
//!
//! ```
//! use serde::{Deserialize, de::value::{Error, MapDeserializer}};
//! use tollgate::algorithm::{Algorithm, TokenBucket};
//!
//! let read = |fields: [(&'static str, &'static str); 2]| {
//!     TokenBucket::deserialize(MapDeserializer::<_, Error>::new(fields.into_iter()))
//! };
//! let limit = read([("quota", "20/s"), ("name", "api")]).unwrap();
//! assert_eq!(limit.policy().id(), TokenBucket::new("1/h".parse().unwrap()).named("api").policy().id());
//!
//! let error = read([("quota", "20/s"), ("interval", "1s")]).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "`interval` is not a field of a token-bucket, which has `algorithm`, `quota`, `burst`, `name`"
//! );
//! ```

mod algorithm;
#[cfg(feature = "rules")]
mod any;
mod distinct;
mod each_of;
mod quota;

#[cfg(feature = "rules")]
pub(crate) use self::{
    any::{AnyAlgorithm, AnyState, with_algorithm, with_state},
    distinct::Distinct,
};

#[cfg(all(test, feature = "rules"))]
mod tests;
