//! Clocks: the machine's, and one for tests that is set by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

#[cfg(any(feature = "local", feature = "redis"))]
mod system;

#[cfg(any(feature = "local", feature = "redis"))]
pub use system::SystemClock;

pub(crate) use crate::timestamp::Timestamp;

/// The clock that a store reads, once for each decision of a known key. A store in memory reads it
/// under its locks.
///
/// # What an implementor must do
///
/// Answer quickly and without blocking, and ask no store. The time should not step back: a state
/// then counts it as no time passed, but a key that a store in memory has forgotten begins anew.
/// While a clock stands still, no bucket refills.
pub trait Clock: Clone + Send + Sync + 'static {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// A clock that stands still until it is set by hand; its clones show the same time.
///
/// # Example: a refused caller is let in again when its wait is over
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::TokenBucket, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(1)), store);
///
/// assert!(limiter.check("bob").await?.is_admitted());
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
///
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check("bob").await?.is_admitted());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows this instant.
    pub fn at(now: Timestamp) -> Self {
        Self {
            micros: Arc::new(AtomicU64::new(now.as_micros())),
        }
    }

    /// Moves the time forward, rounded down to whole microseconds, never past [`Timestamp::MAX`].
    pub fn advance(&self, duration: Duration) {
        let later = |micros| {
            let now = Timestamp::from_micros(micros);
            Some(now.saturating_add(duration).as_micros())
        };
        // The closure always returns `Some`, so this cannot fail.
        let _ = self.micros.fetch_update(SeqCst, SeqCst, later);
    }

    /// Sets the time, forward or back.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_turned_by_hand_goes_on_and_back_in_all_its_clones() {
        let clock = ManualClock::at(Timestamp::from_micros(5));
        let clone = clock.clone();
        clock.advance(Duration::from_micros(7));
        assert_eq!(clone.now().as_micros(), 12);
        clock.set(Timestamp::from_micros(3));
        assert_eq!(clone.now().as_micros(), 3);
    }
}
