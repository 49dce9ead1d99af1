//! The leaky bucket. Its rule is in `debt_bucket.rs`: token bucket and GCRA are the same. That of
//! its queue is there too.

use super::{
    debt_bucket::DebtBucket,
    described::{Described, Field, Given},
    door::{burst, door},
    same_rule::SameRule,
    setters::setters,
};

/// Admits a request if its cost still fits into the bucket; refuses it otherwise.
///
/// The bucket starts empty, holds [`capacity`](Self::capacity) units (by default the quota's), and
/// leaks continuously at the quota's rate. This is the leaky bucket *as a meter*, which is
/// [`TokenBucket`](super::TokenBucket) seen from the other side and gives the same decisions;
/// [`queue`](Self::queue) makes it the leaky bucket *as a queue*, which holds requests back
/// instead, and [`wait_at_most`](Self::wait_at_most) one that does so on top of a burst.
///
/// - **Bound**: in any span of one period at most capacity + ⌊n(P−1)/P⌋ units. (A little more where
///   ticks are coarser than a microsecond, see [`TokenBucket`](super::TokenBucket).)
/// - **Memory**: 24 bytes per key.
/// - **Not for** a quota that must hold in every span of a period exactly: use
///   [`SlidingLog`](super::SlidingLog).
///
/// ![Ten a second, drawn as a token bucket, which decides the same][token_bucket]
///
/// Source: Turner, *New directions in communications* (1986).
///
/// # Example: full, and leaking one unit each half second
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::LeakyBucket, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock).build();
/// let limiter = RateLimiter::new(LeakyBucket::new(Quota::per_second(2)).capacity(5), store);
///
/// assert_eq!(limiter.check_cost("bob", 5).await?.remaining(), 0);
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/token_bucket.md")]
#[derive(Debug, Clone)]
pub struct LeakyBucket(DebtBucket);

door!(
    LeakyBucket,
    "leaky-bucket",
    "A bucket that leaks at this rate and holds as many units as the quota has.",
    capacity,
    try_capacity,
    "How many units the bucket holds."
);

impl LeakyBucket {
    /// Holds admitted requests back until their turn, one unit every P/n, instead of letting them
    /// through at once.
    #[must_use]
    pub fn queue(self) -> LeakyBucketQueue {
        LeakyBucketQueue(self.0.queue("leaky-bucket-queue"))
    }
}

/// Holds an admitted request back until its turn, one unit every P/n; refuses it if the queue is
/// full.
///
/// It is made by [`LeakyBucket::queue`]. A request that finds the queue empty goes through at once;
/// the next waits until the bucket has leaked what the first one cost, and so on. There is room for
/// [`capacity`](Self::capacity) units (by default the quota's), the one that just went through
/// included. The layer does the waiting; with a [`RateLimiter`](crate::RateLimiter) of your own,
/// sleep for [`delay`](crate::Decision::delay).
///
/// - **Bound**: in any span of one period at most n + c − 1 units are released, where c is the
///   largest cost: the output is smooth, whatever the capacity. (A little more where ticks are
///   coarser than a microsecond, see [`TokenBucket`](super::TokenBucket).)
/// - **Memory**: 24 bytes per key.
/// - **Not for** callers who would rather be told to come back: a queue costs them time and you
///   memory.
/// - A request that is dropped while it waits gives its turn back if it is the last one at that
///   moment. Otherwise the turn passes with nobody in it: those behind keep the turns that were
///   promised. A [refund](crate::RateLimiter::refund) changes nothing here.
/// - A request that waits holds the inner service that was made ready for it. Under a concurrency
///   limit *inside* this layer it holds a permit all that time; put the concurrency limit outside.
/// - The layer waits with tokio's timer: a request that has to wait panics outside of a tokio
///   runtime, or in one whose time is not enabled.
/// - Timers are good to a millisecond: above a thousand units a second requests leave in small
///   groups, on time on the average and never early.
///
/// ![Ten a second: bursts leave one by one, 100 ms apart][leaky_bucket_queue]
///
/// Source: the leaky bucket as a queue of Tanenbaum's *Computer Networks*.
///
/// # Example: three at once leave 100 ms apart, the fourth finds no room
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::LeakyBucket, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock).build();
/// let queue = LeakyBucket::new(Quota::per_second(10)).capacity(3).queue();
/// let limiter = RateLimiter::new(queue, store);
///
/// for milliseconds in [0, 100, 200] {
///     let delay = limiter.check("bob").await?.delay();
///     assert_eq!(delay, Duration::from_millis(milliseconds));
/// }
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/leaky_bucket_queue.md")]
#[derive(Debug, Clone)]
pub struct LeakyBucketQueue(DebtBucket);

burst!(
    LeakyBucketQueue,
    capacity,
    try_capacity,
    "How many units the queue has room for."
);
setters!(LeakyBucketQueue, 0.policy);

impl SameRule for LeakyBucketQueue {
    type Rule = DebtBucket;

    const IS_A_QUEUE: bool = true;

    #[inline]
    fn rule(&self) -> &DebtBucket {
        &self.0
    }
}

impl Described for LeakyBucketQueue {
    const NAME: &'static str = "leaky-bucket-queue";

    fn fields() -> Vec<Field> {
        LeakyBucket::fields()
    }

    fn build(given: &Given) -> Result<Self, String> {
        LeakyBucket::build(given).map(LeakyBucket::queue)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Quota,
        algorithm::{Ending, KeyLimit, Limit, Scripted},
        clock::Timestamp,
    };

    use super::*;

    type State = <LeakyBucketQueue as KeyLimit>::State;
    type Snapshot = <LeakyBucketQueue as Limit>::Snapshot;

    /// A unit is 7 parts, and each microsecond pays 3.
    fn queue() -> LeakyBucketQueue {
        let quota = Quota::new(3, Duration::from_micros(7));
        LeakyBucket::new(quota).queue()
    }

    fn admit(queue: &LeakyBucketQueue, state: &mut State, micros: u64) -> Snapshot {
        let (admitted, snapshot) = queue.step(state, 1, Timestamp::from_micros(micros));
        assert!(admitted);
        snapshot
    }

    #[test]
    fn a_queue_has_a_name_of_its_own_whatever_its_capacity() {
        let name = |queue: LeakyBucketQueue| {
            let mut state = queue.fresh(Timestamp::from_micros(100));
            let snapshot = admit(&queue, &mut state, 100);
            queue.decision_of(&snapshot).policy().to_owned()
        };
        assert_eq!(name(queue()), "leaky-bucket-queue-3-7us");
        assert_eq!(name(queue().capacity(9)), "leaky-bucket-queue-3-7us-b9");
    }

    #[test]
    fn each_waits_until_those_before_have_leaked_and_is_known_by_what_was_owed() {
        let queue = queue();
        let mut state = queue.fresh(Timestamp::from_micros(100));
        for (delay, owed) in [(0, 7), (3, 14), (5, 21)] {
            let snapshot = admit(&queue, &mut state, 100);
            assert_eq!(queue.delay_of(&snapshot), Duration::from_micros(delay));
            let mut told = Vec::new();
            queue.admission(&snapshot, &mut |number| told.push(number));
            assert_eq!(told, [100, owed]);
        }
        assert!(!queue.judge(&state, 1, Timestamp::from_micros(100)));
    }

    #[test]
    fn the_last_gives_its_turn_back_and_one_before_it_does_not() {
        let queue = queue();
        let mut state = queue.fresh(Timestamp::from_micros(100));
        let now = Timestamp::from_micros(101);
        let [first, second] = [(); 2].map(|()| admit(&queue, &mut state, 100));
        queue.end(&mut state, &first, Ending::Withdrawn { cost: 1 }, now);
        assert!(queue.judge(&state, 1, now) && !queue.judge(&state, 2, now));
        queue.end(&mut state, &second, Ending::Withdrawn { cost: 1 }, now);
        assert!(queue.judge(&state, 2, now) && !queue.judge(&state, 3, now));
    }
}
