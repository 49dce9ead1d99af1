//! `local::LocalRateLimiterProvider::absolute().inc(..)`, with the default clean-up loop.

use std::{sync::Arc, time::Duration};

use trypema::{
    BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize,
    local::{LocalRateLimiterBuilder, LocalRateLimiterProvider},
};

use super::{Limiter, Reply, Telling};
use crate::limit::{Limit, WINDOW};

/// trypema's limiter of the absolute kind.
pub struct Trypema {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

impl Trypema {
    /// Lets the burst through in any hour, counted in buckets of 10 ms, as its README has them.
    pub fn new(limit: Limit) -> Self {
        Self::per_window(limit.burst, WINDOW)
    }

    /// Lets so many through in any window of whole seconds.
    pub fn per_window(most: u32, window: Duration) -> Self {
        Self::built_by(LocalRateLimiterProvider::builder(), most, window)
    }

    /// The same, with what else the builder has.
    pub fn built_by(builder: LocalRateLimiterBuilder, most: u32, window: Duration) -> Self {
        let provider = builder
            .window_size(WindowSize::seconds_or_panic(window.as_secs()))
            .bucket_size(BucketSize::milliseconds_or_panic(10))
            .build()
            .expect("a valid window");
        Self {
            provider,
            rate: RateLimit::per_second_or_panic(f64::from(most) / window.as_secs_f64()),
        }
    }

    /// A request of so many units.
    pub fn ask_cost(&self, key: &str, cost: u64) -> Reply {
        match self.decide(key, cost) {
            RateLimitDecision::Allowed => Ok(()),
            RateLimitDecision::Rejected { retry_after, .. } => Err(Some(retry_after)),
            _ => Err(None),
        }
    }

    #[inline]
    fn decide(&self, key: &str, cost: u64) -> RateLimitDecision {
        self.provider.absolute().inc(key, &self.rate, cost)
    }
}

impl Limiter<String> for Trypema {
    #[inline]
    fn admits(&self, key: &String) -> bool {
        matches!(self.decide(key, 1), RateLimitDecision::Allowed)
    }
}

impl Telling for Trypema {
    fn ask(&self, key: &str) -> Reply {
        self.ask_cost(key, 1)
    }
}
