//! `RateLimiter::check` over the backend in memory.

use throttle_kit::{InMemoryBackend, Quota, RateLimitResult, RateLimiter, SlidingWindowBackend};

use super::{Limiter, Reply, Telling};
use crate::{limit::Limit, ready};

/// A limit, as throttle-kit says it.
pub fn quota(limit: Limit) -> Quota {
    Quota::from_parts(limit.interval, limit.burst)
}

/// throttle-kit's limiter, by its default rule.
pub struct ThrottleKit(RateLimiter<InMemoryBackend>);

impl ThrottleKit {
    /// Holds all keys to this limit.
    pub fn new(limit: Limit) -> Self {
        Self::with_quota(quota(limit))
    }

    /// Holds all keys to a quota of throttle-kit's.
    pub fn with_quota(quota: Quota) -> Self {
        Self(RateLimiter::new(quota, InMemoryBackend::new()))
    }
}

impl Limiter<String> for ThrottleKit {
    #[inline]
    fn admits(&self, key: &String) -> bool {
        ready(self.0.check(key)).allowed
    }
}

impl Telling for ThrottleKit {
    fn ask(&self, key: &str) -> Reply {
        told(ready(self.0.check(key)))
    }
}

/// throttle-kit's log of requests.
pub struct ThrottleKitWindow(RateLimiter<SlidingWindowBackend>);

impl ThrottleKitWindow {
    /// So many in the time in which they come back.
    pub fn new(limit: Limit) -> Self {
        Self(RateLimiter::new(quota(limit), SlidingWindowBackend::new()))
    }
}

impl Limiter<String> for ThrottleKitWindow {
    #[inline]
    fn admits(&self, key: &String) -> bool {
        ready(self.0.check(key)).allowed
    }
}

impl Telling for ThrottleKitWindow {
    fn ask(&self, key: &str) -> Reply {
        told(ready(self.0.check(key)))
    }
}

fn told(result: RateLimitResult) -> Reply {
    match result.allowed {
        true => Ok(()),
        false => Err(result.retry_after),
    }
}
