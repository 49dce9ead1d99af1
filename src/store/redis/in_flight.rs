//! The requests in flight of this process, which it counts for each bucket: one task says how many
//! there are, only while there are any. `in_flight.lua` says what Redis makes of it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    time::timeout_at,
};

use crate::{
    algorithm::Limit,
    algorithm::Member,
    error::StoreErrorKind,
    store::{Decided, Written},
};

use super::{
    Later, Shared,
    arguments::{KeyQuery, Place, Units, has_a_place},
    failure, lock,
    run::LATE_TIMEOUT,
    script::Op,
};

/// The buckets in which this process has requests in flight.
pub(super) struct InFlightPlaces {
    /// Tells this store from those of other processes.
    process: f64,
    /// Numbers the changes, so that Redis knows which of two was later.
    changes: AtomicU64,
    all: Mutex<All>,
    /// Wakes the task: a renewal is due sooner than it would wake.
    is_sooner: Notify,
}

#[derive(Default)]
struct All {
    /// By their first keys.
    buckets: HashMap<Bytes, Bucket>,
    /// When the task looks again; none if there is no task.
    task_due: Option<Instant>,
}

/// A bucket in which this process has requests in flight.
struct Bucket {
    query: KeyQuery,
    every: Duration,
    due: Instant,
    /// How many requests are in flight, with those that are asked for.
    running: u64,
    /// How many of them have been admitted.
    sure: u64,
    /// The number of the last renewal.
    renewed: u64,
    /// Whether a renewal has no answer yet.
    is_being_renewed: bool,
}

impl Default for InFlightPlaces {
    fn default() -> Self {
        Self {
            process: (RandomState::new().hash_one(0) >> 11) as f64,
            changes: AtomicU64::new(1),
            all: Mutex::default(),
            is_sooner: Notify::new(),
        }
    }
}

impl InFlightPlaces {
    fn next(&self) -> u64 {
        self.changes.fetch_add(1, Ordering::Relaxed)
    }

    fn place(&self, number: u64, running: f64) -> Place {
        Place {
            process: self.process,
            number: number as f64,
            running,
        }
    }
}

/// How often a bucket is renewed: four times in the shortest time that a lease lasts.
fn renewed_every(members: &[Member], mut told: &[u64]) -> Duration {
    let mut shortest = u64::MAX;
    for member in members {
        let (own, rest) = told.split_at(member.parameters.len().min(told.len()));
        if member.in_flight {
            shortest = shortest.min(own.last().copied().unwrap_or(u64::MAX));
        }
        told = rest
            .get(if member.settled { 3 } else { 0 }..)
            .unwrap_or(&[]);
    }
    Duration::from_micros(shortest / 4)
}

impl Shared {
    fn in_flight(&self) -> MutexGuard<'_, All> {
        lock(&self.in_flight.all)
    }

    /// What is said of a change now.
    pub(super) fn next_place(&self) -> Place {
        self.in_flight.place(self.in_flight.next(), -1.0)
    }

    /// Counts a request that is asked for, and has it renewed; what is said of it.
    pub(super) fn begin(self: &Arc<Self>, query: &KeyQuery) -> Place {
        if !query.scripts.has(|member| member.in_flight) {
            return Place::LOOK;
        }
        let every = renewed_every(query.scripts.script.members(), &query.told);
        let mut all = self.in_flight();
        // Under the lock: a renewal that does not count this request has an earlier number.
        let number = self.in_flight.next();
        let bucket = (all.buckets.entry(query.keys[0].clone())).or_insert_with(|| Bucket {
            query: query.clone(),
            every,
            due: Instant::now() + every,
            running: 0,
            sure: 0,
            renewed: 0,
            is_being_renewed: false,
        });
        // Plans of one name differ in these: the next renewal is by those of the last request.
        (bucket.query.told, bucket.every) = (query.told.clone(), every);
        bucket.due = bucket.due.min(Instant::now() + every);
        bucket.running += 1;
        let (due, sure) = (bucket.due, bucket.sure as f64);
        if all.task_due.is_some_and(|task_due| due < task_due) {
            self.in_flight.is_sooner.notify_one();
        }
        self.in_flight.place(number, sure)
    }

    /// Starts the task, if there is none.
    fn renew_from_now_on(self: &Arc<Self>, all: &mut All) {
        if all.task_due.is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            all.task_due = Some(Instant::now());
            runtime.spawn(Arc::clone(self).renew());
        }
    }

    /// Whether the request was admitted is known now. If it was not, or nobody knows, Redis is soon
    /// told that it is not in flight.
    pub(super) fn has_begun<L: Limit>(
        self: &Arc<Self>,
        key: &Bytes,
        place: Place,
        decided: &Decided<L>,
    ) {
        if place.process == 0.0 {
            return;
        }
        let mut all = self.in_flight();
        let Some(bucket) = all.buckets.get_mut(key) else {
            return;
        };
        let is_unknown = match decided {
            Ok(verdict) if verdict.admitted => {
                bucket.sure += 1;
                self.renew_from_now_on(&mut all);
                return;
            }
            Ok(_) => false,
            Err(error) => error.kind() == StoreErrorKind::Unavailable,
        };
        bucket.running = bucket.running.saturating_sub(1);
        if is_unknown || bucket.renewed > place.number as u64 {
            bucket.due = Instant::now();
            self.in_flight.is_sooner.notify_one();
            self.renew_from_now_on(&mut all);
        } else if bucket.running == 0 && !bucket.is_being_renewed {
            all.buckets.remove(key);
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
        let ended = {
            let mut all = self.in_flight();
            let number = self.in_flight.next();
            let bucket = all.buckets.get_mut(&query.keys[0])?;
            bucket.running = bucket.running.saturating_sub(1);
            bucket.sure = bucket.sure.saturating_sub(1);
            if Handle::try_current().is_err() {
                // It is said by the next renewal.
                bucket.due = Instant::now();
                self.in_flight.is_sooner.notify_one();
                return None;
            }
            let place = self.in_flight.place(number, bucket.sure as f64);
            let ended = KeyQuery {
                place,
                ..bucket.query.clone()
            };
            if bucket.running == 0 && !bucket.is_being_renewed {
                all.buckets.remove(&query.keys[0]);
            }
            ended
        };
        let arguments = self.arguments([&ended], (Op::Change, Units::InFlight(-1)));
        Some(self.send_late(&ended, vec![arguments]))
    }

    /// Renews leases until nothing is in flight.
    async fn renew(self: Arc<Self>) {
        let mut task = RenewingTask(Some(self));
        while let Some(shared) = &task.0 {
            let Some(due) = shared.next_renewal() else {
                // It has ended by itself, and another one may have begun.
                task.0 = None;
                return;
            };
            let is_sooner = shared.in_flight.is_sooner.notified();
            if timeout_at(due.into(), is_sooner).await.is_err() {
                shared.renew_what_is_due();
            }
        }
    }

    /// When something is to be renewed; if nothing is in flight, the task ends.
    fn next_renewal(&self) -> Option<Instant> {
        let (mut all, now) = (self.in_flight(), Instant::now());
        let due = |bucket: &Bucket| match bucket.is_being_renewed {
            false => bucket.due,
            // The task is woken when it is over.
            true => bucket.due.max(now + bucket.every),
        };
        all.task_due = all.buckets.values().map(due).min();
        all.task_due
    }

    /// Sends each renewal by itself, and waits for none: a node that hangs delays no other's.
    fn renew_what_is_due(self: &Arc<Self>) {
        let now = Instant::now();
        let mut all = self.in_flight();
        for bucket in all.buckets.values_mut() {
            // A little early, so that buckets are renewed together.
            if bucket.due > now + bucket.every / 4 || bucket.is_being_renewed {
                continue;
            }
            (bucket.due, bucket.is_being_renewed) = (now + bucket.every, true);
            bucket.renewed = self.in_flight.next();
            bucket.query.place = self.in_flight.place(bucket.renewed, bucket.running as f64);
            let renewal = Renewal {
                shared: Arc::clone(self),
                query: bucket.query.clone(),
            };
            let timeout = self.deadline().max(bucket.every.min(LATE_TIMEOUT));
            tokio::spawn(renewal.send(timeout));
        }
    }
}

/// A renewal on its way. When it is over, answered or not, the bucket may be renewed again.
struct Renewal {
    shared: Arc<Shared>,
    query: KeyQuery,
}

impl Renewal {
    async fn send(self, timeout: Duration) {
        let (shared, KeyQuery { scripts, keys, .. }) = (&self.shared, &self.query);
        let arguments = shared.arguments([&self.query], (Op::Change, Units::InFlight(0)));
        let (script, arguments) = (&scripts.loadable, vec![arguments]);
        let renewing = shared.run(Some(script), keys.clone(), arguments, Some(timeout));
        let renewed = renewing.await;
        shared.health.record(&renewed, [&keys[0]]);
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let mut all = self.shared.in_flight();
        if let Some(bucket) = all.buckets.get_mut(&self.query.keys[0]) {
            bucket.is_being_renewed = false;
            if bucket.running == 0 {
                all.buckets.remove(&self.query.keys[0]);
            } else if bucket.due <= Instant::now() {
                self.shared.in_flight.is_sooner.notify_one();
            }
        }
    }
}

/// The task that renews. If its runtime ends first, the next request in flight starts another task.
struct RenewingTask(Option<Arc<Shared>>);

impl Drop for RenewingTask {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.in_flight().task_due = None;
        }
    }
}

/// Delivers a decision. If nobody waits for it any more, what it has taken is given back.
pub(super) fn delivered<L: Limit>(
    deciding: Later<Decided<L>>,
    give_back: impl Fn(&L::Snapshot) + Send + Sync + 'static,
) -> Later<Decided<L>> {
    Box::pin(async move {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let mut undelivered: Undelivered<L, _> = Undelivered {
                decided: None,
                give_back,
            };
            undelivered.decided = Some(deciding.await);
            // If nobody receives it, it is dropped here.
            let _ = sender.send(undelivered);
        });
        let delivered = receiver.await.ok();
        let decided = delivered.and_then(|mut delivered| delivered.decided.take());
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
