//! GCRA. Its rule is in `debt_bucket.rs`: token bucket and leaky bucket are the same.

use super::{debt_bucket::DebtBucket, door::door};

/// Admits a burst at once, and after it what comes at the quota's rate; refuses what comes sooner.
///
/// A request may come no more than the burst tolerance before its theoretical arrival time. Each
/// unit moves that time on by one emission interval, P/n; the tolerance lets
/// [`burst`](Self::burst) units (by default the quota's) arrive at once.
/// [`TokenBucket`](super::TokenBucket) is the same rule under another name, and gives the same
/// decisions.
///
/// - **Bound**: in any span of one period at most burst + ⌊n(P−1)/P⌋ units. (A little more where
///   ticks are coarser than a microsecond, see [`TokenBucket`](super::TokenBucket).)
/// - **Memory**: 24 bytes per key.
/// - **Not for** a quota that must hold in every span of a period exactly: use
///   [`SlidingLog`](super::SlidingLog).
///
/// ![Ten a second, drawn as a token bucket, which decides the same][token_bucket]
///
/// Source: the generic cell rate algorithm of ITU-T I.371.
///
/// # Example: one at a time
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::Gcra, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(Gcra::new(Quota::per_second(3)).burst(1), store);
///
/// assert!(limiter.check("bob").await?.is_admitted());
/// let wait = limiter.check("bob").await?.retry_after().unwrap();
/// assert_eq!(wait, Duration::from_micros(333_334));
///
/// clock.advance(wait);
/// assert!(limiter.check("bob").await?.is_admitted());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/token_bucket.md")]
#[derive(Debug, Clone)]
pub struct Gcra(DebtBucket);

door!(
    Gcra,
    "gcra",
    "A limit of this rate that lets as many units arrive at once as the quota has.",
    burst,
    try_burst,
    "How many units may arrive at once."
);
