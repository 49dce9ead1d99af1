//! The token bucket. Its rule is in `debt_bucket.rs`: leaky bucket and GCRA are the same.

use super::{debt_bucket::DebtBucket, door::door};

/// Admits a request if the bucket holds a token for each unit of its cost; refuses it otherwise.
///
/// The bucket starts full, with [`burst`](Self::burst) tokens (by default the quota's units), and
/// fills up continuously at the quota's rate. [`LeakyBucket`](super::LeakyBucket) and
/// [`Gcra`](super::Gcra) are the same rule under other names.
///
/// - **Bound**: in any span of one period at most burst + ⌊n(P−1)/P⌋ units: a whole burst, and what
///   refills meanwhile. (With ticks of T µs, see below: burst + ⌊n·T·⌈(P−1)/T⌉/P⌋, at most one unit
///   more where T divides the period and n ≤ P.)
/// - **Memory**: 24 bytes per key.
/// - **Not for** a quota that must hold in every span of a period exactly: use
///   [`SlidingLog`](super::SlidingLog).
///
/// Refills are exact to the microsecond and never drift. Quotas whose numbers are very large and
/// share few factors with their period are counted in ticks of 10 µs, 100 µs and so on. With a
/// burst of 1, what refills beyond one token between two ticks is lost: above some ten thousand a
/// second use a burst of 2.
///
/// ![Ten a second: a burst of ten goes at once, then what refills][token_bucket]
///
/// Source: the token bucket of RFC 2697 and Turner's *New directions in communications* (1986).
///
/// # Example: a burst, then one token each 50 ms
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::TokenBucket, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(20)).burst(40), store);
///
/// assert!(limiter.check_cost("bob", 40).await?.is_admitted());
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(50)));
///
/// clock.advance(Duration::from_millis(50));
/// assert!(limiter.check("bob").await?.is_admitted());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/token_bucket.md")]
#[derive(Debug, Clone)]
pub struct TokenBucket(DebtBucket);

door!(
    TokenBucket,
    "token-bucket",
    "A bucket that refills at this rate and holds as many tokens as the quota has units.",
    burst,
    try_burst,
    "How many tokens the bucket holds when it is full."
);
