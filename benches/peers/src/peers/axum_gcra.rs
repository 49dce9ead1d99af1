//! `gcra::RateLimiter::req_sync`, what the layer calls; it takes the time, and the key by value.

use std::{convert::Infallible, hash::Hash, num::NonZeroU64, time::Instant};

use axum_gcra::{
    RateLimitLayer,
    gcra::{Quota, RateLimiter},
    real_ip::RealIp,
};
use axum07::{extract::Request, response::Response};
use tower::{Layer, Service};

use super::{Limiter, Reply};
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

/// A service under its layer, by the address that its own extractor finds.
pub fn layered<S>(
    limit: Limit,
    service: S,
) -> impl Service<Request, Response = Response, Error = Infallible>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let layer = RateLimitLayer::<RealIp>::builder().with_default_quota(quota(limit));
    layer.default_handle_error().layer(service)
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
    pub fn ask_at(&self, key: K, now: Instant) -> Reply {
        let result = self.limiter.req_sync(key, self.quota, now);
        result.map_err(|error| Some(error.as_duration()))
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Limiter<K> for AxumGcra<K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        let result = (self.limiter).req_sync(key.clone(), self.quota, Instant::now());
        result.is_ok()
    }
}
