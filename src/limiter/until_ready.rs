//! Waits until a cost is admitted.

use std::{any::type_name, time::Duration};

use tokio::time::sleep;

use crate::{
    choice::Choose,
    decision::Decision,
    error::{StoreError, StoreErrorKind},
    key::Key,
    limit::Limit,
    store::{AsKey, Store},
};

use super::{RateLimiter, gives_back_what_it_takes, lines::LineOf};

/// How long until the next attempt where nobody knows when there is room.
const UNKNOWN_WAIT: Duration = Duration::from_millis(20);

impl<C: Choose<()>, S> RateLimiter<C, S> {
    /// Waits until the cost is admitted, and charges it; what it returns is admitted.
    ///
    /// First come, first served: in this process those who wait for one key wait in one line, over
    /// all limiters with the same policy and clones of one store. Only the first of them asks the
    /// store, and not before the announced wait is over; whoever comes meanwhile stands behind,
    /// even with a smaller cost. [`check`](Self::check) does not wait in line, and other processes
    /// have lines of their own. Where requests are [delayed](Decision::delay), as by
    /// [`LeakyBucket::queue`](crate::algorithm::LeakyBucket::queue) and
    /// [`wait_at_most`](crate::algorithm::WaitAtMost), the line ends at the admission, whose delay
    /// is slept off too: the store's order is everyone's.
    ///
    /// Dropping the future (as a `timeout` does) charges nothing, and the next in line takes its
    /// turn at once. One that was admitted and sleeps its delay off gives its turn back where a
    /// [queue](crate::algorithm::LeakyBucketQueue) can. A key for which nobody waits takes no
    /// memory.
    ///
    /// It sleeps by tokio's timer, so it is there with the features `layer` and `redis`, and panics
    /// outside of a tokio runtime with time if it has to wait. The timer is good to a millisecond:
    /// with a burst of 1 and above some hundred units a second it is slower than the limit. In a
    /// test with a clock of its own, the store's clock must go with tokio's, or nobody's turn
    /// comes.
    ///
    /// # Errors
    ///
    /// The store could not decide; or, of the kind [`InvalidInput`](StoreErrorKind::InvalidInput)
    /// and at once, the cost is more than the limit ever lets through.
    ///
    /// # Example: five jobs, one each 10 ms
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use tollgate::{Quota, RateLimiter, algorithm::Gcra, store::LocalStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::new(Gcra::new(Quota::per_second(100)).burst(1), LocalStore::new());
    /// let start = Instant::now();
    /// for _ in 0..5 {
    ///     limiter.until_ready("tenant", 1).await?;
    /// }
    /// assert!(start.elapsed() >= Duration::from_millis(40));
    ///
    /// let never = limiter.until_ready("tenant", 2).await;
    /// assert!(never.is_err());
    /// # Ok::<(), tollgate::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn until_ready<K, Q>(&self, key: &Q, cost: u32) -> Result<Decision, StoreError>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
    {
        const { gives_back_what_it_takes::<C::Limit>() };
        let line = self.line(key);
        let mut wait = None;
        if line.is_empty() {
            match self.attempt(key, cost).await? {
                Ok(admission) => return Ok(admission.at_its_turn().await),
                Err(refused_for) => wait = Some(refused_for),
            }
        }
        let place = line.join();
        if !place.is_first() {
            place.first().await;
            wait = None;
        }
        loop {
            if let Some(wait) = wait {
                sleep(wait).await;
            }
            match self.attempt(key, cost).await? {
                Ok(admission) => {
                    drop(place);
                    return Ok(admission.at_its_turn().await);
                }
                Err(refused_for) => wait = Some(refused_for),
            }
        }
    }

    /// Where those wait who want this bucket.
    fn line<K, Q>(&self, key: &Q) -> LineOf
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
    {
        let choice = self.algorithm.choose(&());
        let policies = self.algorithm.limit(&choice).policies();
        let store = (type_name::<S>(), self.store.buckets_id());
        LineOf::new((store, policies, key))
    }

    /// Charges the cost, or tells for how long it is refused.
    async fn attempt<K, Q>(
        &self,
        key: &Q,
        cost: u32,
    ) -> Result<Result<Admission<'_, C, S, K>, Duration>, StoreError>
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
    {
        let choice = self.algorithm.choose(&());
        let limit = self.algorithm.limit(&choice);
        let verdict = self.store.decide(limit, key, cost).wait().await?;
        let decision = limit.decision_of(&verdict.snapshot);
        if verdict.admitted {
            let delayed = (!decision.delay().is_zero()).then(|| Delayed {
                limiter: self,
                choice,
                key: key.to_owned(),
                snapshot: verdict.snapshot,
                cost,
                is_over: false,
            });
            return Ok(Ok(Admission { decision, delayed }));
        }
        if decision.never_fits() {
            let (policy, limit) = (decision.policy(), decision.limit());
            let why =
                format!("a cost of {cost} is more than {policy:?} ever lets through, {limit}");
            return Err(StoreError::new(StoreErrorKind::InvalidInput, why));
        }
        Ok(Err(decision.retry_after().unwrap_or(UNKNOWN_WAIT)))
    }
}

struct Admission<'a, C: Choose<()>, S: Store<C::Limit, K>, K: Key> {
    decision: Decision,
    delayed: Option<Delayed<'a, C, S, K>>,
}

impl<C: Choose<()>, S: Store<C::Limit, K>, K: Key> Admission<'_, C, S, K> {
    async fn at_its_turn(self) -> Decision {
        let Self { decision, delayed } = self;
        if let Some(mut delayed) = delayed {
            sleep(decision.delay()).await;
            delayed.is_over = true;
        }
        decision
    }
}

/// An admission whose turn is still to come; if it is dropped before, the turn is given back.
struct Delayed<'a, C: Choose<()>, S: Store<C::Limit, K>, K: Key> {
    limiter: &'a RateLimiter<C, S>,
    choice: C::Choice,
    key: K,
    snapshot: <C::Limit as Limit>::Snapshot,
    cost: u32,
    is_over: bool,
}

impl<C: Choose<()>, S: Store<C::Limit, K>, K: Key> Drop for Delayed<'_, C, S, K> {
    fn drop(&mut self) {
        if !self.is_over {
            let limit = self.limiter.algorithm.limit(&self.choice);
            let store = &self.limiter.store;
            store.withdraw(limit, &self.key, &self.snapshot, self.cost);
        }
    }
}
