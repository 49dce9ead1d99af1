//! `RateLimiter::keyed(..)` and `check_key`, and `RateLimiter::direct(..)` for one bucket.

use std::{hash::Hash, num::NonZeroU32};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Limiter;
use crate::limit::Limit;

/// governor's keyed limiter, with its default store and clock.
pub struct Governor<K: Hash + Eq + Clone>(pub DefaultKeyedRateLimiter<K>);

/// A limit, as governor says it.
pub fn quota(limit: Limit) -> Quota {
    let burst = NonZeroU32::new(limit.burst).expect("not zero");
    let quota = Quota::with_period(limit.interval).expect("not zero");
    quota.allow_burst(burst)
}

impl<K: Hash + Eq + Clone> Governor<K> {
    /// Holds all keys to this limit.
    pub fn new(limit: Limit) -> Self {
        Self(RateLimiter::keyed(quota(limit)))
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Limiter<K> for Governor<K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// governor's limiter of one bucket.
pub struct DirectGovernor(DefaultDirectRateLimiter);

impl DirectGovernor {
    /// Holds all calls to this limit.
    pub fn new(limit: Limit) -> Self {
        Self(RateLimiter::direct(quota(limit)))
    }
}

impl Limiter<()> for DirectGovernor {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.0.check().is_ok()
    }
}
