//! Crates that have one bucket and no keys.

use crate::limit::Limit;

use super::Limiter;

/// `ratelimit::Ratelimiter::try_wait`.
pub struct Ratelimit(ratelimit::Ratelimiter);

impl Ratelimit {
    /// Holds all calls to this limit, and starts full, as the others do.
    pub fn new(limit: Limit) -> Self {
        let limiter = ratelimit::Ratelimiter::builder(1)
            .period(limit.interval)
            .max_tokens(limit.burst.into())
            .initial_available(limit.burst.into())
            .build();
        Self(limiter.expect("valid numbers"))
    }
}

impl Limiter<()> for Ratelimit {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.0.try_wait().is_ok()
    }
}

/// `leaky_bucket::RateLimiter::try_acquire`.
pub struct LeakyBucket(leaky_bucket::RateLimiter);

impl LeakyBucket {
    /// Holds all calls to this limit, and starts full, as the others do.
    pub fn new(limit: Limit) -> Self {
        let limiter = leaky_bucket::RateLimiter::builder()
            .interval(limit.interval)
            .refill(1)
            .max(limit.burst as usize)
            .initial(limit.burst as usize)
            .build();
        Self(limiter)
    }
}

impl Limiter<()> for LeakyBucket {
    #[inline]
    fn admits(&self, (): &()) -> bool {
        self.0.try_acquire(1)
    }
}
