//! `RateLimiter::rate_limit` over the default store. It needs `&mut`, so it stands behind a lock
//! here.

use std::{
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use throttlecrab::{PeriodicStore, RateLimitResult, RateLimiter};

use super::{Limiter, Reply};
use crate::limit::Limit;

/// throttlecrab's limiter, behind a lock.
pub struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    limit: Limit,
}

impl Throttlecrab {
    /// Holds all keys to this limit, whose interval is a whole second or more, or divides one.
    pub fn new(limit: Limit) -> Self {
        Self::over(PeriodicStore::new(), limit)
    }

    /// The same, over a store that was built otherwise.
    pub fn over(store: PeriodicStore, limit: Limit) -> Self {
        let limiter = Mutex::new(RateLimiter::new(store));
        Self { limiter, limit }
    }

    /// A request of so many units, at a time of one's own.
    pub fn ask_at(&self, key: &str, cost: i64, now: SystemTime) -> Reply {
        match self.decide(key, cost, now) {
            (true, _) => Ok(()),
            (false, result) => Err(Some(result.retry_after)),
        }
    }

    #[inline]
    fn decide(&self, key: &str, cost: i64, now: SystemTime) -> (bool, RateLimitResult) {
        let interval_us = self.limit.interval.as_micros() as i64;
        let (count, period_s) = match interval_us {
            ..1_000_000 => (1_000_000 / interval_us, 1),
            _ => (1, interval_us / 1_000_000),
        };
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let burst = self.limit.burst.into();
        let decision = limiter.rate_limit(key, burst, count, period_s, cost, now);
        decision.expect("valid numbers")
    }
}

impl Limiter<String> for Throttlecrab {
    #[inline]
    fn admits(&self, key: &String) -> bool {
        self.decide(key, 1, SystemTime::now()).0
    }
}
