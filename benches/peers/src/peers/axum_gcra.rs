//! `gcra::RateLimiter::req_sync`, what the layer calls; it takes the time, and the key by value.

use std::{hash::Hash, num::NonZeroU64, time::Instant};

use axum_gcra::gcra::{Quota, RateLimiter};

use super::Limiter;
use crate::limit::Limit;

/// axum_gcra's limiter, with its default interval of clean-ups and the hasher that its layer has.
pub struct AxumGcra<K: Hash + Eq> {
    limiter: RateLimiter<K, ahash::RandomState>,
    quota: Quota,
}

/// A limit, as axum_gcra says it.
pub fn quota(limit: Limit) -> Quota {
    let burst = NonZeroU64::new(limit.burst.into()).expect("not zero");
    Quota::new(limit.interval, burst)
}

impl<K: Hash + Eq> AxumGcra<K> {
    /// Holds all keys to this limit.
    pub fn new(limit: Limit) -> Self {
        Self {
            limiter: RateLimiter::default(),
            quota: quota(limit),
        }
    }

    /// The same, at a time of one's own.
    pub fn admits_at(&self, key: K, now: Instant) -> bool {
        self.limiter.req_sync(key, self.quota, now).is_ok()
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Limiter<K> for AxumGcra<K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        self.admits_at(key.clone(), Instant::now())
    }
}
