//! The requests in flight of this process, which it counts for each bucket: one task says how many
//! there are, only while there are any. `in_flight.lua` says what Redis makes of it.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{runtime::Handle, sync::Notify, time::timeout_at};

use crate::{
    algorithm::{Member, Scripted},
    error::StoreErrorKind,
    limit::Limit,
    store::{Decided, Written},
};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{Arguments, Place, Units, push_call, push_members, told},
    run::LATE_TIMEOUT,
    script::Op,
    scripts::{ScriptCache, Scripts},
};

mod delivered;

pub(super) use self::delivered::delivered;

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
    scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
    keys: Vec<Bytes>,
    told: Vec<u64>,
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
        // It holds numbers only, and nothing that is done with it panics half-way.
        (self.in_flight.all.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// What is said of a change now.
    pub(super) fn next_place(&self) -> Place {
        self.in_flight.place(self.in_flight.next(), -1.0)
    }

    /// Counts a request that is asked for, and has it renewed; what is said of it.
    pub(super) fn begin<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: &[Bytes],
        cost: u32,
    ) -> Place {
        if !A::IN_FLIGHT || cost == 0 {
            return Place::LOOK;
        }
        let told = told(algorithm);
        let every = renewed_every(self.script_cache.scripts::<A>().script.members(), &told);
        let mut all = self.in_flight();
        // Under the lock: a renewal that does not count this request has an earlier number.
        let number = self.in_flight.next();
        let bucket = (all.buckets.entry(keys[0].clone())).or_insert_with(|| Bucket {
            scripts: ScriptCache::<Scripts>::scripts::<A>,
            keys: keys.to_vec(),
            told: Vec::new(),
            every,
            due: Instant::now() + every,
            running: 0,
            sure: 0,
            renewed: 0,
            is_being_renewed: false,
        });
        // Plans of one name differ in these: the next renewal is by those of the last request.
        (bucket.told, bucket.every) = (told, every);
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
    pub(super) fn end<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: &[Bytes],
        admission: &A::Snapshot,
    ) -> Option<Later<Written>> {
        if !A::IN_FLIGHT || !has_a_place(self.script_cache.scripts::<A>(), algorithm, admission) {
            return None;
        }
        let (scripts, arguments) = {
            let mut all = self.in_flight();
            let number = self.in_flight.next();
            let bucket = all.buckets.get_mut(&keys[0])?;
            bucket.running = bucket.running.saturating_sub(1);
            bucket.sure = bucket.sure.saturating_sub(1);
            if Handle::try_current().is_err() {
                // It is said by the next renewal.
                bucket.due = Instant::now();
                self.in_flight.is_sooner.notify_one();
                return None;
            }
            let scripts = bucket.scripts;
            let told = std::mem::take(&mut bucket.told);
            let is_over = bucket.running == 0 && !bucket.is_being_renewed;
            let script = &scripts(&self.script_cache).script;
            let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
            push_call(&mut numbers, Op::Change, self.now());
            let place = self.in_flight.place(number, bucket.sure as f64);
            push_members(&mut numbers, script, &told, (Units::InFlight(-1), place));
            match is_over {
                true => drop(all.buckets.remove(&keys[0])),
                false => bucket.told = told,
            }
            (scripts, Arguments::from(numbers))
        };
        Some(self.send_late(scripts, keys.to_vec(), arguments))
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
            let script = &(bucket.scripts)(&self.script_cache).script;
            let place = self.in_flight.place(bucket.renewed, bucket.running as f64);
            let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
            push_call(&mut numbers, Op::Change, self.now());
            push_members(
                &mut numbers,
                script,
                &bucket.told,
                (Units::InFlight(0), place),
            );
            let renewal = Renewal {
                shared: Arc::clone(self),
                bucket: bucket.keys[0].clone(),
            };
            let timeout = self.deadline.max(bucket.every.min(LATE_TIMEOUT));
            tokio::spawn(renewal.send(timeout, bucket.scripts, bucket.keys.clone(), numbers));
        }
    }
}

/// Whether an admission has taken a place.
fn has_a_place<A: Scripted>(scripts: &Scripts, algorithm: &A, admission: &A::Snapshot) -> bool {
    let mut numbers = Vec::new();
    algorithm.admission(admission, &mut |number| numbers.push(number));
    let mut numbers = numbers.into_iter();
    (scripts.script.members().iter()).any(|member| {
        if member.in_shadow {
            numbers.next();
        }
        let count = match (member.settled || member.in_flight, member.withdraws) {
            (true, _) => 1,
            (_, true) => 2,
            _ => 0,
        };
        let own: u64 = numbers.by_ref().take(count).sum();
        member.in_flight && own > 0
    })
}

/// A renewal on its way. When it is over, answered or not, the bucket may be renewed again.
struct Renewal {
    shared: Arc<Shared>,
    bucket: Bytes,
}

impl Renewal {
    async fn send(
        self,
        timeout: Duration,
        scripts: fn(&ScriptCache<Scripts>) -> &Scripts,
        keys: Vec<Bytes>,
        numbers: Vec<u8>,
    ) {
        let script = &scripts(&self.shared.script_cache).loadable;
        let renewed = (self.shared)
            .run_within(timeout, script, keys, numbers.into())
            .await;
        self.shared.health.record(&renewed, [&self.bucket]);
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let mut all = self.shared.in_flight();
        if let Some(bucket) = all.buckets.get_mut(&self.bucket) {
            bucket.is_being_renewed = false;
            if bucket.running == 0 {
                all.buckets.remove(&self.bucket);
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
