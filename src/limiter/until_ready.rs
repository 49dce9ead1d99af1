//! Waits until a cost is admitted.

use std::{any::type_name, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    algorithm::{Ending, Limit},
    choice::Choose,
    decision::Decision,
    error::{StoreError, StoreErrorKind},
    key::Key,
    observe::Observe,
    store::{AsKey, Ask, Change, Decided, Store, Verdict},
};

use super::{RateLimiter, gives_back_what_it_takes, waiting_lines::Waiter};

/// How often the first in line looks whether there is room before the announced wait is over, or
/// asks anew where none is announced.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl<C: Choose<()>, S, W> RateLimiter<C, S, W> {
    /// Waits until the cost is admitted, and charges it; what it returns is admitted.
    ///
    /// First come, first served: in this process those who call it for one key stand in one line,
    /// over all limiters with the same policy and clones of one store. Only the first of them asks
    /// the store, and whoever comes meanwhile stands behind, even with a smaller cost. So over
    /// Redis a process admits for one key no more than one call per round trip.
    /// [`check`](Self::check) does not stand in line, and other processes have lines of their own.
    /// Where requests are [delayed](Decision::delay), as by
    /// [`LeakyBucket::queue`](crate::algorithm::LeakyBucket::queue) and
    /// [`wait_at_most`](crate::algorithm::WaitAtMost), the line ends at the admission, whose delay
    /// is slept off too: the store's order is everyone's.
    ///
    /// **How long**: the first in line asks again when the announced wait is over. Before that it
    /// looks once a second whether there is room: after a reset, a refund, a settlement or with
    /// other numbers, whichever process has changed them. A look charges nothing, and one that
    /// fails is left out. So in each process a key for which somebody waits takes one small call a
    /// second.
    ///
    /// **Dropping the future** (as a `timeout` does) charges nothing, and the next in line takes
    /// its turn at once. There is one exception: an attempt that is on its way to Redis cannot be
    /// called back. Its cost may be charged, once, though nobody is told; what is
    /// [settled](crate::algorithm::Settled) is given back. One that was admitted and sleeps its
    /// delay off gives its turn back where a [queue](crate::algorithm::LeakyBucketQueue) can. A
    /// future that was polled, and is neither polled again nor dropped, holds up its line.
    ///
    /// A key for which nobody waits takes no memory.
    ///
    /// An [observer](Self::observe) is told at the end, once.
    ///
    /// It needs the feature `layer` or `redis`, since it sleeps by tokio's timer: if it has to wait
    /// outside of a tokio runtime with time, it panics. The timer is good to a millisecond: with a
    /// burst of 1 and above some hundred units a second it is slower than the limit. In a test with
    /// a clock of its own, the store's clock must move with tokio's, or no turn ever comes.
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
        W: Observe<K>,
    {
        const { gives_back_what_it_takes::<C::Limit>() };
        let since = Instant::now();
        let (choice, verdict, store_time, mut has_waited) = self.last_answer(key, cost).await;
        let limit = self.algorithm.limit(&choice);
        if let Ok(admission) = &verdict
            && admission.admitted
        {
            let delay = limit.delay_of(&admission.snapshot);
            if !delay.is_zero() {
                let mut turn = Turn {
                    limit,
                    store: &self.store,
                    key: key.to_owned(),
                    admission: &admission.snapshot,
                    cost,
                    is_over: false,
                };
                sleep(delay).await;
                turn.is_over = true;
                has_waited = true;
            }
            // It was held first, so that whoever gives up before is not charged.
            if C::Limit::SETTLES && cost > 0 {
                let (held, spent) = (cost, cost);
                let settled = Change::End(&admission.snapshot, Ending::Settled { held, spent });
                drop(self.store.change(limit, key, settled));
            }
        }
        let waited = has_waited.then(|| since.elapsed());
        let answered = verdict.as_ref().map(Some);
        self.notify_observer((limit, key, cost), answered, store_time, waited);
        let verdict = verdict?;
        let decision = limit.decision_of(&verdict.snapshot);
        match verdict.admitted {
            true => Ok(decision),
            false => Err(never_fits(cost, &decision)),
        }
    }

    /// Asks until the cost is admitted, never fits, or cannot be decided about. Tells by which
    /// choice, the answer, the store's time for it, and whether it has waited.
    async fn last_answer<K, Q>(
        &self,
        key: &Q,
        cost: u32,
    ) -> (C::Choice, Decided<C::Limit>, Option<Duration>, bool)
    where
        K: Key,
        Q: AsKey<K> + ?Sized,
        S: Store<C::Limit, K>,
        W: Observe<K>,
    {
        // Whoever comes while another asks stands behind: so each asks in turn, and alone.
        let waiter = {
            let choice = self.algorithm.choose(&());
            let policies = self.algorithm.limit(&choice).policy_id();
            let store = (type_name::<S>(), self.store.buckets_id());
            Waiter::new((store, policies, key))
        };
        let (_turn, mut has_waited) = waiter.first().await;
        loop {
            let refused_for = {
                let choice = self.algorithm.choose(&());
                let limit = self.algorithm.limit(&choice);
                let started = self.observer.times_store().then(Instant::now);
                let asked = self.store.decide(limit, key, Ask::Charge(cost));
                let verdict = asked.wait().await;
                let store_time = started.map(|started| started.elapsed());
                let refused_for = verdict.as_ref().ok().and_then(|seen| wait_of(limit, seen));
                let Some(refused_for) = refused_for else {
                    return (choice, verdict, store_time, has_waited);
                };
                refused_for
            };
            self.room(key, cost, refused_for).await;
            has_waited = true;
        }
    }

    /// Waits until the announced wait is over, or until it sees that another attempt would end
    /// otherwise: after a reset, a refund, a settlement, or with other numbers.
    ///
    /// It only looks. If that fails, or if the future is dropped meanwhile, nothing is charged.
    async fn room<K: Key, Q: AsKey<K> + ?Sized>(&self, key: &Q, cost: u32, refused_for: Duration)
    where
        S: Store<C::Limit, K>,
    {
        let (mut since, mut wait) = (Instant::now(), refused_for);
        loop {
            let left = wait.saturating_sub(since.elapsed());
            sleep(left.min(LOOK_INTERVAL)).await;
            if left <= LOOK_INTERVAL {
                return;
            }
            let choice = self.algorithm.choose(&());
            let limit = self.algorithm.limit(&choice);
            let look = self.store.decide(limit, key, Ask::Look(cost)).wait();
            if let Ok(Ok(seen)) = timeout(wait.saturating_sub(since.elapsed()), look).await {
                match wait_of(limit, &seen) {
                    Some(announced) => (since, wait) = (Instant::now(), announced),
                    None => return,
                }
            }
        }
    }
}

/// For how long it is refused; `None` if it is admitted, or never will be.
fn wait_of<L: Limit>(limit: &L, verdict: &Verdict<L::Snapshot>) -> Option<Duration> {
    if verdict.admitted {
        return None;
    }
    let refused = limit.decision_of(&verdict.snapshot);
    (!refused.never_fits()).then(|| refused.retry_after().unwrap_or(LOOK_INTERVAL))
}

fn never_fits(cost: u32, decision: &Decision) -> StoreError {
    let (policy, limit) = (decision.policy(), decision.limit());
    let why = format!("a cost of {cost} is more than {policy:?} ever lets through, {limit}");
    StoreError::new(StoreErrorKind::InvalidInput, why)
}

/// An admission whose turn is still to come; if it is dropped before, the turn is given back.
struct Turn<'a, L: Limit, S: Store<L, K>, K: Key> {
    limit: &'a L,
    store: &'a S,
    key: K,
    admission: &'a L::Snapshot,
    cost: u32,
    is_over: bool,
}

impl<L: Limit, S: Store<L, K>, K: Key> Drop for Turn<'_, L, S, K> {
    fn drop(&mut self) {
        if !self.is_over {
            let ending = Ending::Withdrawn { cost: self.cost };
            let withdrawn = Change::End(self.admission, ending);
            drop(self.store.change(self.limit, &self.key, withdrawn));
        }
    }
}
