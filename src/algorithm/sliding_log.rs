//! The sliding log. Its rule is in `log.rs`: the sliding buckets are the same, in slots.

use crate::{
    algorithm::{Policy, log::Log},
    error::{ConfigError, or_panic},
    quota::Quota,
};

use super::{
    described::{Described, Given},
    same_rule::{SameAdditiveRule, SameRule},
    setters::setters,
};

/// Admits a request if the units admitted in the period up to now leave room for its cost; refuses
/// it otherwise.
///
/// It remembers each admission, so it is exact.
///
/// - **Bound**: in any span of one period at most n units.
/// - **Memory**: 56 bytes per key, enough for one instant of admission within the last period.
///   Further instants take 16 to 32 for each, and no less than 64, at their most so far: up to
///   32 n.
/// - **Not for** large quotas with many callers: use [`SlidingBuckets`](super::SlidingBuckets),
///   strict, for the same bound in bounded memory.
///
/// ![Ten a second: never more than ten in any second, wherever it starts][sliding_log]
///
/// Source: the sliding window log; RFC 6585 leaves the way of counting to the server.
///
/// # Example: room again as soon as the oldest admission is a period old
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::SlidingLog, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(SlidingLog::new(Quota::per_second(2)), store);
///
/// assert!(limiter.check("bob").await?.is_admitted());
/// clock.advance(Duration::from_millis(700));
/// assert!(limiter.check("bob").await?.is_admitted());
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(300)));
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/sliding_log.md")]
#[derive(Debug, Clone)]
pub struct SlidingLog(Log);

setters!(additive SlidingLog, 0.policy);

impl SameRule for SlidingLog {
    type Rule = Log;

    #[inline]
    fn rule(&self) -> &Log {
        &self.0
    }
}

impl SameAdditiveRule for SlidingLog {}

impl SlidingLog {
    /// A log of what was admitted in the last period.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(quota: Quota) -> Self {
        or_panic(Self::try_new(quota))
    }

    /// A log of what was admitted in the last period.
    ///
    /// # Errors
    ///
    /// The quota is of more than 2<sup>53</sup> − 2<sup>32</sup> units.
    pub fn try_new(quota: Quota) -> Result<Self, ConfigError> {
        let period = quota.period_micros();
        let policy = Policy::of_window("sliding-log", quota, "");
        Log::new(policy, quota, 1, period).map(Self)
    }
}

impl Described for SlidingLog {
    const NAME: &'static str = "sliding-log";

    fn build(given: &Given) -> Result<Self, String> {
        given.make("quota", Self::try_new)
    }
}
