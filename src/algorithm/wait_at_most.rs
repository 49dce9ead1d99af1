use std::{marker::PhantomData, time::Duration};

use crate::error::ConfigError;

use super::{
    debt_bucket::DebtBucket,
    described::{Described, Field, Given, Kind, SpanText},
    same_rule::SameRule,
    setters::setters,
};

/// Lets bursts through at once and delays what comes on top until its turn, at the quota's rate;
/// refuses a request only if its wait would be too long.
///
/// It is made by [`TokenBucket::wait_at_most`](super::TokenBucket::wait_at_most),
/// [`Gcra::wait_at_most`](super::Gcra::wait_at_most) and
/// [`LeakyBucket::wait_at_most`](super::LeakyBucket::wait_at_most), which are one rule here too: a
/// request leaves when no more than the burst is owed with it, and one that costs more than the
/// burst when nothing is owed before it. The layer does the waiting; with a
/// [`RateLimiter`](crate::RateLimiter) of your own, sleep for [`delay`](crate::Decision::delay), or
/// call `until_ready`. First come, first served: over Redis across all processes, in one round
/// trip, since the delay says when it is a request's turn.
///
/// - **Bound**: in any span of one period at most max(burst, c) + n − 1 units are released, where c
///   is the largest cost: those who waited add nothing to it. (A little more where ticks are
///   coarser than a microsecond, see [`TokenBucket`](super::TokenBucket).)
/// - **Room**: as many units are admitted at once as the burst has and as come back in the wait,
///   fractions of a unit included: with one unit per 10 s, a burst of 1 and a wait of 5 s, the
///   second request is told to come back in 5 s, and then waits for 5 s. This is what
///   [`limit`](crate::Decision::limit) says, and [`remaining`](crate::Decision::remaining) how many
///   more are admitted now, whether they go at once or wait. A cost above it never fits. A burst of
///   0 admits nothing.
/// - **Memory**: 24 bytes per key.
/// - **Not for** callers who would rather be told to come back: each request that waits takes
///   memory. What [`LeakyBucketQueue`](super::LeakyBucketQueue) says of dropped requests, of timers
///   and of the inner service holds here too. A [refund](crate::RateLimiter::refund) changes
///   nothing.
///
/// ![A burst of four goes at once; the next wait their turn for up to half a second][wait_at_most]
///
/// # Example: two at once, the third half a second later, no wait of more than a second
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::TokenBucket, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock).build();
/// let bucket = TokenBucket::new(Quota::per_second(2)).wait_at_most(Duration::from_secs(1));
/// let limiter = RateLimiter::new(bucket, store);
///
/// for milliseconds in [0, 0, 500, 1_000] {
///     let delay = limiter.check("bob").await?.delay();
///     assert_eq!(delay, Duration::from_millis(milliseconds));
/// }
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/wait_at_most.md")]
#[derive(Debug, Clone)]
pub struct WaitAtMost<Algo> {
    queue: DebtBucket,
    of: PhantomData<fn() -> Algo>,
}

impl<A> WaitAtMost<A> {
    pub(super) fn of(bucket: &DebtBucket, wait: Duration) -> Result<Self, ConfigError> {
        let (queue, of) = (bucket.with_wait(wait)?, PhantomData);
        Ok(Self { queue, of })
    }
}

setters!(WaitAtMost<A> where A, queue.policy);

impl<A: Clone + 'static> SameRule for WaitAtMost<A> {
    type Rule = DebtBucket;

    const IS_A_QUEUE: bool = true;

    #[inline]
    fn rule(&self) -> &DebtBucket {
        &self.queue
    }
}

impl<A: Described + SameRule<Rule = DebtBucket>> Described for WaitAtMost<A> {
    const NAME: &'static str = A::NAME;

    fn fields() -> Vec<Field> {
        let wait = Field::new("wait-at-most", Kind::Span, "5s");
        A::fields().into_iter().chain([wait]).collect()
    }

    fn build(given: &Given) -> Result<Self, String> {
        let bucket = A::build(given)?;
        given.make("wait-at-most", |SpanText(wait)| {
            Self::of(bucket.rule(), wait)
        })
    }
}
