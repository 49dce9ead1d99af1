//! The places of requests in flight that this process has taken in Redis: one task renews all of
//! them, in batches and only while there are any, and each is given back once.
//!
//! Redis knows a place only by its generation, and the places of a bucket are all alike. So for
//! each bucket this counts the running requests, and, in lots, its places in each generation.

use std::{
    any::TypeId,
    collections::HashMap,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::timeout_at,
};

use crate::{
    algorithm::{Member, Scripted},
    store::Written,
};

use super::{
    ARGUMENTS_LEN, Later, Shared,
    arguments::{Arguments, bytes_of, push, push_settlement},
    run::LATE_TIMEOUT,
    scripts::{ScriptCache, Scripts},
};

mod bucket;
mod delivered;

use self::bucket::{Bucket, Ended, Lot, Renewal, ScriptsOf, replies};

pub(super) use self::delivered::delivered;

/// How many lots one command renews at most.
const MAX_BATCH: usize = 100;
/// If places lasted for less, a renewal that is a little late would lose them. Those of
/// [`InFlight`](crate::algorithm::InFlight) last for 125 ms at least.
const MIN_HELD_AT_MOST: Duration = Duration::from_millis(100);

/// The buckets in which this process has requests in flight.
#[derive(Default)]
pub(super) struct InFlightPlaces {
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

/// The numbers of an admission that name places, or all but those; the rest are zeros.
pub(super) fn numbers_of<A: Scripted>(
    algorithm: &A,
    members: &[Member],
    admission: &A::Snapshot,
    of_places: bool,
) -> Vec<f64> {
    let mut numbers = Vec::new();
    algorithm.admission(admission, &mut |number| numbers.push(number as f64));
    let is_place = members
        .iter()
        .flat_map(|member| iter::repeat_n(member.in_flight, member.admission().len()));
    for (number, is_place) in numbers.iter_mut().zip(is_place) {
        if is_place != of_places {
            *number = 0.0;
        }
    }
    numbers
}

fn is_nothing(starts: &[f64]) -> bool {
    starts.iter().all(|&start| start == 0.0)
}

/// How often places are renewed: five times in the shortest time that a script holds them, which is
/// four times in the `held_at_most` of an [`InFlight`](crate::algorithm::InFlight).
///
/// # Panics
///
/// If they last for too short a time to be renewed: see [`Script::in_flight`].
///
/// [`Script::in_flight`]: crate::algorithm::Script::in_flight
fn renewed_every(members: &[Member], parameters: &[u64]) -> Duration {
    let named = members
        .iter()
        .flat_map(|member| member.parameters.iter().map(move |name| (member, *name)));
    let (held_at_most, member) = (named.zip(parameters))
        .filter(|((member, name), _)| member.in_flight && *name == "held_at_most")
        .map(|((member, _), &micros)| (Duration::from_micros(micros), member))
        .min_by_key(|(held_at_most, _)| *held_at_most)
        .expect("a value for each parameter of the script");
    assert!(
        held_at_most >= MIN_HELD_AT_MOST,
        "the script of layout `{}` counts requests in flight, so it must hold for \
         {MIN_HELD_AT_MOST:?} or longer: a place that is held for {held_at_most:?} is lost if its \
         renewal is a little late",
        member.layout
    );
    held_at_most / 5
}

impl Shared {
    fn in_flight(&self) -> MutexGuard<'_, All> {
        // It holds numbers only, and nothing that is done with it panics half-way.
        (self.in_flight.all.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the place of a request that was admitted, and has it renewed.
    pub(super) fn begin<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: &[Bytes],
        admission: &A::Snapshot,
    ) {
        let scripts = self.script_cache.scripts::<A>();
        let starts = numbers_of(algorithm, &scripts.members, admission, true);
        if is_nothing(&starts) {
            return;
        }
        let (mut told, mut parameters) = (Vec::new(), Vec::with_capacity(ARGUMENTS_LEN));
        algorithm.parameters(&mut |parameter| {
            told.push(parameter);
            push(&mut parameters, parameter as f64);
        });
        let every = renewed_every(&scripts.members, &told);
        let mut all = self.in_flight();
        let bucket = (all.buckets.entry(keys[0].clone())).or_insert_with(|| Bucket {
            scripts: ScriptsOf {
                algorithm: TypeId::of::<A>(),
                find: ScriptCache::<Scripts>::scripts::<A>,
            },
            keys: keys.to_vec(),
            parameters: Vec::new(),
            every,
            due: Instant::now() + every,
            starts: starts.len(),
            running: 0,
            lots: Vec::new(),
            being_renewed: 0,
            unanswered_renewals: 0,
            renewals: watch::Sender::new(()),
        });
        // Plans of one name differ in these: the next renewal is by those of the last admission.
        (bucket.parameters, bucket.every) = (parameters, every);
        bucket.due = bucket.due.min(Instant::now() + every);
        bucket.running += 1;
        bucket.add(Lot { starts, places: 1 });
        let due = bucket.due;
        match all.task_due {
            None => {
                all.task_due = Some(due);
                drop(all);
                tokio::spawn(Arc::clone(self).renew());
            }
            Some(task_due) if due < task_due => self.in_flight.is_sooner.notify_one(),
            Some(_) => {}
        }
    }

    /// Gives back the place of a request that has ended; none if it has none.
    pub(super) fn end<A: Scripted>(
        self: &Arc<Self>,
        algorithm: &A,
        keys: &[Bytes],
        admission: &A::Snapshot,
    ) -> Option<Later<Written>> {
        let members = &self.script_cache.scripts::<A>().members;
        if is_nothing(&numbers_of(algorithm, members, admission, true)) {
            return None;
        }
        let mut all = self.in_flight();
        let bucket = all.buckets.get_mut(&keys[0])?;
        bucket.running = bucket.running.saturating_sub(1);
        // Without a runtime nothing can be sent: the task gives it back with the next renewal.
        let spare = (Handle::try_current().is_ok())
            .then(|| bucket.take_spare())
            .flatten();
        let is_being_renewed = spare.is_none() && bucket.being_renewed > 0;
        // Then it is given back when the renewal is over.
        let renewed = is_being_renewed.then(|| bucket.renewals.subscribe());
        if bucket.is_done() {
            all.buckets.remove(&keys[0]);
        }
        drop(all);
        match (spare, renewed) {
            (Some(ended), _) => Some(self.give_back(ended)),
            (None, Some(mut renewed)) => Some(Box::pin(async move {
                let _ = renewed.changed().await;
                Ok(())
            })),
            (None, None) => None,
        }
    }

    /// Sends it at once, once, and whether or not somebody waits for it.
    fn give_back(self: &Arc<Self>, ended: Ended) -> Later<Written> {
        let mut numbers = Vec::with_capacity(ARGUMENTS_LEN);
        let (now, held_and_spent) = (self.now(), (1, 0));
        push_settlement(
            &mut numbers,
            held_and_spent,
            now,
            &ended.parameters,
            &bytes_of(&ended.starts),
        );
        self.send_settlement(ended.scripts.find, ended.keys, numbers)
    }

    /// Renews places until nothing is in flight.
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
        let due = |bucket: &Bucket| match bucket.unanswered_renewals {
            0 => bucket.due,
            // The task is woken when they are over.
            _ => bucket.due.max(now + bucket.every),
        };
        all.task_due = all.buckets.values().map(due).min();
        all.task_due
    }

    /// Sends each batch by itself, and waits for none: a node that hangs delays no other's.
    fn renew_what_is_due(self: &Arc<Self>) {
        let (mut renewals, now) = (Vec::new(), Instant::now());
        for bucket in self.in_flight().buckets.values_mut() {
            // A little early, so that buckets are renewed together.
            if bucket.due <= now + bucket.every / 4 && bucket.unanswered_renewals == 0 {
                bucket.due = now + bucket.every;
                renewals.extend(bucket.take_renewals(self.now(), self.deadline));
            }
        }
        let mut batches: HashMap<(TypeId, u16), Vec<Renewal>> = HashMap::new();
        for renewal in renewals {
            let slot = self.slot_of(&renewal.keys[0]);
            let batch = (renewal.scripts.algorithm, slot);
            batches.entry(batch).or_default().push(renewal);
        }
        for mut batch in batches.into_values() {
            while !batch.is_empty() {
                let next = batch.split_off(batch.len().min(MAX_BATCH));
                let renewals = std::mem::replace(&mut batch, next);
                let batch = Batch {
                    shared: Arc::clone(self),
                    renewals,
                };
                tokio::spawn(batch.renew());
            }
        }
    }
}

/// Lots that are renewed by one command. Where its task is aborted they are put back as they were.
struct Batch {
    shared: Arc<Shared>,
    renewals: Vec<Renewal>,
}

impl Batch {
    async fn renew(mut self) {
        let (shared, first) = (Arc::clone(&self.shared), &self.renewals[0]);
        let scripts = (first.scripts.find)(&shared.script_cache);
        let script = scripts.renew.as_ref().expect("it has places");
        let renewals = self.renewals.iter();
        let keys = (renewals.clone()).flat_map(|renewal| renewal.keys.iter().cloned());
        let arguments = renewals.clone().map(|renewal| renewal.arguments.clone());
        let timeout = renewals.clone().map(|renewal| renewal.timeout).min();
        let (keys, arguments) = (keys.collect(), Arguments::of_several(arguments.collect()));
        let renewed = shared
            .run_within(timeout.unwrap_or(LATE_TIMEOUT), script, keys, arguments)
            .await;
        let states = renewals.map(|renewal| &renewal.keys[0]);
        shared.health.record(&renewed, states);
        // Without an answer the lots stay as they were. If Redis has moved their places all the
        // same, other places of the old generation are moved in their stead, and none is lost.
        let replies = renewed.ok().map(|reply| replies(&reply, &scripts.members));
        let (ended, renewals) = self.put_back(replies);
        for ended in ended {
            let _ = shared.give_back(ended).await;
        }
        for over in renewals {
            let _ = over.send(());
        }
    }

    /// Puts the lots back into their buckets. Returns the places that no request needs any more,
    /// and the channels that tell that a renewal is over.
    fn put_back(&mut self, replies: Option<Vec<Lot>>) -> (Vec<Ended>, Vec<watch::Sender<()>>) {
        let mut replies = replies
            .filter(|replies| replies.len() == self.renewals.len())
            .map(Vec::into_iter);
        let (mut ended, mut renewals, mut is_overdue) = (Vec::new(), Vec::new(), false);
        let (mut all, now) = (self.shared.in_flight(), Instant::now());
        for renewal in self.renewals.drain(..) {
            let replied = replies.as_mut().and_then(Iterator::next);
            let Some(bucket) = all.buckets.get_mut(&renewal.bucket) else {
                continue;
            };
            bucket.put_back(renewal.lot, replied);
            ended.extend(iter::from_fn(|| bucket.take_spare()));
            renewals.push(bucket.renewals.clone());
            is_overdue |= bucket.due <= now;
            if bucket.is_done() {
                all.buckets.remove(&renewal.bucket);
            }
        }
        if is_overdue {
            self.shared.in_flight.is_sooner.notify_one();
        }
        (ended, renewals)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut all = self.shared.in_flight();
        for renewal in self.renewals.drain(..) {
            if let Some(bucket) = all.buckets.get_mut(&renewal.bucket) {
                bucket.put_back(renewal.lot, None);
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

#[cfg(test)]
mod tests {
    use crate::algorithm::{FixedWindow, InFlight, Settled};

    use super::*;

    fn told<A: Scripted>(algorithm: &A) -> Duration {
        let mut told = Vec::new();
        algorithm.parameters(&mut |number| told.push(number));
        renewed_every(A::script().members(), &told)
    }

    #[test]
    fn places_are_renewed_four_times_in_the_shortest_time_that_they_are_held() {
        let held = |millis| InFlight::new(2).held_at_most(Duration::from_millis(millis));
        assert_eq!(told(&held(800)), Duration::from_millis(200));
        let tuple = (held(4_000), held(100), held(60_000));
        assert_eq!(told(&tuple), Duration::from_millis(25));
    }

    #[test]
    #[should_panic(
        expected = "layout `window-held` counts requests in flight, so it must hold for"
    )]
    fn places_that_are_lost_before_they_are_renewed_are_refused_and_the_layout_is_named() {
        let script = Settled::<FixedWindow>::script().in_flight();
        let held = [99_999, 200_000, 0];
        let parameters = [&[5, 60, 0][..], &held].concat();
        renewed_every(script.members(), &parameters);
    }
}
