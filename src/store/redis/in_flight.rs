//! The requests in flight of this process, which it counts for each bucket: a task says how many
//! there are, only while there are any. `in_flight.lua` says what Redis makes of it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::Notify,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

use crate::{
    algorithm::Limit,
    store::{Decided, Written},
};

use super::{
    Later, Shared,
    arguments::{InFlightCount, KeyQuery, Units, has_a_place},
    failure, lock,
    run::{LATE_TIMEOUT, Wait, in_a_task},
};

/// The buckets in which this process has requests in flight.
pub(super) struct InFlightPlaces {
    /// Tells this store from those of other processes.
    process: f64,
    /// Numbers the changes, so that Redis knows which of two was later.
    changes: AtomicU64,
    /// By their first keys.
    buckets: Mutex<HashMap<Bytes, Bucket>>,
}

/// A bucket in which this process has requests in flight.
struct Bucket {
    query: KeyQuery,
    /// How many requests are in flight, with those that are asked for.
    running: u64,
    /// How many of them have been admitted.
    sure: u64,
    /// The number of the last renewal.
    renewed: f64,
    /// Has it renewed at once.
    wake: Arc<Notify>,
    /// Renews it, once a request was admitted. It ends with its runtime.
    task: Option<AbortHandle>,
}

impl Default for InFlightPlaces {
    fn default() -> Self {
        Self {
            process: (RandomState::new().hash_one(0) >> 11) as f64,
            changes: AtomicU64::new(1),
            buckets: Mutex::default(),
        }
    }
}

impl InFlightPlaces {
    /// What is said of a change now.
    pub(super) fn place(&self, running: f64) -> InFlightCount {
        InFlightCount {
            process: self.process,
            number: self.changes.fetch_add(1, Ordering::Relaxed) as f64,
            running,
        }
    }
}

/// How often a bucket is renewed: four times in the shortest time that a lease lasts.
fn renewed_every(query: &KeyQuery) -> Duration {
    let (mut shortest, mut parameters) = (u64::MAX, &*query.parameters);
    for member in query.scripts.script.members() {
        let own = parameters.split_off(..member.parameters.len());
        if let (true, Some([.., lease])) = (member.in_flight, own) {
            shortest = shortest.min(*lease);
        }
    }
    Duration::from_micros(shortest / 4)
}

/// Forgets a bucket in which nothing is in flight.
fn forget(buckets: &mut HashMap<Bytes, Bucket>, key: &Bytes) {
    if let Some(task) = buckets.remove(key).and_then(|bucket| bucket.task) {
        task.abort();
    }
}

impl Shared {
    /// Counts a request that is asked for; what is said of it.
    pub(super) fn begin(&self, query: &KeyQuery) -> InFlightCount {
        if !query.scripts.has(|member| member.in_flight) {
            return InFlightCount::LOOK;
        }
        let mut buckets = lock(&self.in_flight.buckets);
        let bucket = (buckets.entry(query.keys[0].clone())).or_insert_with(|| Bucket {
            query: query.clone(),
            running: 0,
            sure: 0,
            renewed: 0.0,
            wake: Arc::default(),
            task: None,
        });
        // Plans of one name differ in these: the next renewal is by those of the last request.
        if renewed_every(query) < renewed_every(&bucket.query) {
            bucket.wake.notify_one();
        }
        bucket.query.parameters.clone_from(&query.parameters);
        bucket.running += 1;
        // Under the lock: a renewal that does not count this request has an earlier number.
        self.in_flight.place(bucket.sure as f64)
    }

    /// Whether the request has a place is known now, or that nobody knows. Unless it has, Redis is
    /// soon told that it is not in flight.
    pub(super) fn has_begun(
        self: &Arc<Self>,
        (key, place): (&Bytes, InFlightCount),
        has_a_place: Option<bool>,
    ) {
        let mut buckets = lock(&self.in_flight.buckets);
        let Some(bucket) = buckets.get_mut(key) else {
            return;
        };
        match has_a_place {
            Some(true) => bucket.sure += 1,
            Some(false) | None => {
                bucket.running = bucket.running.saturating_sub(1);
                // Without an answer the script may have run, or run later, whatever the error is.
                if has_a_place.is_some() && bucket.renewed <= place.number {
                    if bucket.running == 0 {
                        forget(&mut buckets, key);
                    }
                    return;
                }
                bucket.wake.notify_one();
            }
        }
        let has_a_task = (bucket.task.as_ref()).is_some_and(|task| !task.is_finished());
        if !has_a_task && let Ok(runtime) = Handle::try_current() {
            let due = Instant::now() + renewed_every(&bucket.query);
            let renewing = Arc::clone(self).renew(key.clone(), Arc::clone(&bucket.wake), due);
            bucket.task = Some(runtime.spawn(renewing).abort_handle());
        }
    }

    /// Says that a request has ended; nothing, if it has no place.
    pub(super) fn end(
        self: &Arc<Self>,
        query: &KeyQuery,
        admission: &[f64],
    ) -> Option<Later<Written>> {
        if !has_a_place(&query.scripts.script, admission) {
            return None;
        }
        let mut buckets = lock(&self.in_flight.buckets);
        let bucket = buckets.get_mut(&query.keys[0])?;
        bucket.running = bucket.running.saturating_sub(1);
        bucket.sure = bucket.sure.saturating_sub(1);
        if Handle::try_current().is_err() {
            // It is said by the next renewal.
            bucket.wake.notify_one();
            return None;
        }
        let place = self.in_flight.place(bucket.sure as f64);
        let ended = bucket.query.clone();
        if bucket.running == 0 {
            forget(&mut buckets, &query.keys[0]);
        }
        drop(buckets);
        Some(self.send_place(ended, (place, -1), self.late()))
    }

    /// Says that a request has ended (-1), or nothing new (0).
    pub(super) fn send_place(
        self: &Arc<Self>,
        mut query: KeyQuery,
        (place, change): (InFlightCount, i8),
        wait: Wait,
    ) -> Later<Written> {
        query.place = place;
        self.send(&query, Units::InFlight(change), wait)
    }

    /// Renews the lease of a bucket until nothing is in flight there.
    async fn renew(self: Arc<Self>, key: Bytes, wake: Arc<Notify>, mut due: Instant) {
        loop {
            let _ = timeout_at(due, wake.notified()).await;
            let (query, place, is_last) = {
                let mut buckets = lock(&self.in_flight.buckets);
                let Some(bucket) = buckets.get_mut(&key) else {
                    return;
                };
                let place = self.in_flight.place(bucket.running as f64);
                bucket.renewed = place.number;
                let (query, is_last) = (bucket.query.clone(), bucket.running == 0);
                if is_last {
                    buckets.remove(&key);
                }
                (query, place, is_last)
            };
            let every = renewed_every(&query);
            due = Instant::now() + every;
            let wait = Wait::Late(self.deadline().max(every.min(LATE_TIMEOUT)));
            let _ = self.send_place(query, (place, 0), wait).await;
            if is_last {
                return;
            }
        }
    }
}

/// Delivers a decision. If nobody waits for it any more, what it has taken is given back.
pub(super) fn delivered<L: Limit>(
    deciding: Later<Decided<L>>,
    give_back: impl Fn(&L::Snapshot) + Send + Sync + 'static,
) -> Later<Decided<L>> {
    Box::pin(async move {
        let decided = in_a_task(async move {
            let decided = Some(deciding.await);
            Ok(Undelivered::<L, _> { decided, give_back })
        });
        // If nobody waits for it, it is dropped when it is made.
        let decided = decided.await?.decided.take();
        decided.unwrap_or_else(|| Err(failure::runtime_ends()))
    })
}

/// A decision on its way.
struct Undelivered<L: Limit, G: Fn(&L::Snapshot)> {
    decided: Option<Decided<L>>,
    give_back: G,
}

impl<L: Limit, G: Fn(&L::Snapshot)> Drop for Undelivered<L, G> {
    fn drop(&mut self) {
        if let Some(Ok(verdict)) = &self.decided
            && verdict.admitted
        {
            (self.give_back)(&verdict.snapshot);
        }
    }
}
