//! The peers, each in its own file, used as its own documentation says.

use std::time::Duration;

pub mod axum_gcra;
pub mod governor;
pub mod limitador;
pub mod skp_ratelimit;
pub mod throttle_kit;
pub mod throttlecrab;
pub mod trypema;
pub mod unkeyed;

pub use self::{
    axum_gcra::AxumGcra,
    governor::{DirectGovernor, Governor},
    limitador::Limitador,
    skp_ratelimit::SkpRatelimit,
    throttle_kit::{ThrottleKit, ThrottleKitWindow},
    throttlecrab::Throttlecrab,
    trypema::Trypema,
    unkeyed::{LeakyBucket, Ratelimit},
};

/// Something that lets the request of a key pass, or not.
pub trait Limiter<K>: Send + Sync {
    /// Charges one unit, if there is one.
    fn admits(&self, key: &K) -> bool;
}

/// What a limiter says to a request: a refused caller may be told how long to wait.
pub type Reply = Result<(), Option<Duration>>;

/// Something that may tell whom it refuses how long to wait.
pub trait Telling {
    /// Charges one unit, if there is one.
    fn ask(&self, key: &str) -> Reply;
}
