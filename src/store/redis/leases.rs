//! Units that a process holds of a bucket, to spend them without asking Redis.
//!
//! A lease is a hold: all that is held fits (`settled.rs`). A unit is spent at most a lease time
//! after it was asked for, by this process's clock, and the server holds it for ten times as long
//! at least, by its own: so it is held when it is spent. It is charged later, when it is settled or
//! its hold ends; at the instant of spending it would have fitted too, and time would only have
//! paid it off sooner. So what is spent stays within the bound, by the instant of spending.
//!
//! The script settles the lease of before, decides about the requests that wait, and holds a
//! surplus: what this process has used within its last lease time, at most half of the room, and so
//! much that all processes together hold no more than a quarter of the limit.
//!
//! The lock of the leases is taken before that of the counters; that of the calls on their way
//! before that of the refusals.

mod idle;
mod used;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::task::AbortHandle;

use crate::{
    algorithm::Member,
    error::StoreError,
    store::{Ask, Source},
};

use super::{
    Shared,
    arguments::{KeyQuery, Units},
    changes::Stamp,
    joined::{Origin, Replied, Subject, of_each},
    lock,
    reply::{BYTES, HeldByMember, is_charged, lease_of, without_held},
    run::Wait,
    script::Op,
};

use self::used::Use;

/// The most buckets whose use is known; at most half of them have a lease.
const MAX_BUCKETS: usize = 10_000;

/// A bucket is leased after so many decisions within a lease time.
const DECISIONS_BEFORE: u64 = 4;

/// A hold lives for so many lease times, and for at least so long, from when it was asked for: a
/// process that was paused for less spends nothing that has been charged as lost.
const HELD_FOR_TIMES: u64 = 10;
const HELD_FOR_AT_LEAST_MICROS: u64 = 5_000_000;

/// All processes together hold at most this part of what a limit lets through at once.
const MAX_HELD_DIVISOR: u64 = 4;

/// The leases of a process. Times are in microseconds.
pub(super) struct Leases {
    /// For how long a lease is spent, from when it was asked for.
    time: u64,
    /// For how long it is held.
    held_for: u64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    buckets: HashMap<Subject, Bucket>,
    /// How many of them have a lease, or a call on its way that brings one.
    leased: usize,
    /// The task that settles what lies idle, while anything is leased. It ends with its runtime.
    settling: Option<AbortHandle>,
}

/// A bucket that this process uses.
#[derive(Default)]
struct Bucket {
    used: Use,
    /// Whether a call that brings a lease is on its way.
    is_asked_for: bool,
    /// No lease is asked for before this.
    asks_again_at: u64,
    lease: Option<Lease>,
}

struct Lease {
    held: u32,
    left: u32,
    by_member: Vec<HeldByMember>,
    asked: Stamp,
    asked_at: SystemTime,
    answered_at: u64,
    reply: Bytes,
}

/// How many units all processes together may hold.
fn most_held(limit: &KeyQuery) -> u64 {
    limit.limit / MAX_HELD_DIVISOR
}

impl Leases {
    /// For a lease time of 1 ms to 60 s.
    pub(super) fn new(time: Duration) -> Self {
        let time = time.as_micros() as u64;
        Self {
            time,
            held_for: (time * HELD_FOR_TIMES).max(HELD_FOR_AT_LEAST_MICROS),
            known: Mutex::default(),
        }
    }

    /// Whether units of this limit may be held. What is held of a window counts for a lease time
    /// longer, which is at most a quarter of its period.
    pub(super) fn can_hold(&self, limit: &KeyQuery) -> bool {
        most_held(limit) > 0 && self.time <= limit.window / 4
    }
}

impl Shared {
    /// Spends a cost of what this process holds, or looks at it: the reply of the last answer, less
    /// what was spent here. What a list has told is as of then. None, if Redis must be asked.
    pub(super) fn spend(&self, subject: &Subject, ask: Ask) -> Option<Replied> {
        let leases = subject.leases()?;
        let mut known = lock(&leases.known);
        let bucket = known.buckets.get_mut(subject)?;
        let lease = bucket.lease.as_mut()?;
        let now = self.stamp(subject);
        if ask.cost() > lease.left || !self.can_be_spent(lease, now, leases.time) {
            return None;
        }
        lease.left -= ask.charge();
        let origin = Origin {
            source: Source::Leased,
            micros_ago: match subject.has(Member::has_list) {
                true => 0,
                false => now.at.saturating_sub(lease.answered_at),
            },
        };
        // What is left is held for others, and what was spent is charged.
        let of_members = (&subject.queries[0].scripts.script, &lease.by_member[..]);
        let reply = without_held(&lease.reply, lease.left, of_members);
        if ask.charge() > 0 {
            let units = u64::from(ask.charge());
            bucket.used.count(now.at, leases.time, [1, units]);
            let mut usage = self.usage();
            usage.leased += 1;
            usage.units_held -= units;
        }
        Some((reply, origin))
    }

    /// Whether a unit of this lease, which is one for so long, may be spent now.
    fn can_be_spent(&self, lease: &Lease, now: Stamp, time: u64) -> bool {
        let Some(age) = now.at.checked_sub(lease.asked.at) else {
            return false;
        };
        // `now` is monotonic, and stops while a machine sleeps; the wall clock does not.
        let ahead = || lease.asked_at.elapsed().unwrap_or_default();
        let is_paused = || ahead() > Duration::from_micros(age.saturating_add(time));
        let is_wall_time = self.clock.is_none();
        age < time && now.changes == lease.asked.changes && !(is_wall_time && is_paused())
    }

    /// A call about this is sent now, with these costs: what it says of leases, if it does.
    pub(super) fn leasing(self: &Arc<Self>, subject: &Subject, costs: &[u32]) -> Option<Leasing> {
        let (leases, now) = (subject.leases()?, self.stamp(subject));
        let mut known = lock(&leases.known);
        if known.buckets.len() >= MAX_BUCKETS {
            // At most half of them are left.
            (known.buckets).retain(|_, it| it.lease.is_some() || it.is_asked_for);
        }
        let known = &mut *known;
        let bucket = known.buckets.entry(subject.clone()).or_default();
        let settled = bucket.lease.take();
        known.leased -= usize::from(settled.is_some());
        let has_room = known.leased < MAX_BUCKETS / 2;
        let [decisions, units] = bucket.used.lately(now.at, leases.time);
        let decisions = decisions + costs.len() as u64;
        let units = units + costs.iter().copied().map(u64::from).sum::<u64>();
        let may_ask = has_room && !bucket.is_asked_for && now.at >= bucket.asks_again_at;
        let wanted = match decisions > DECISIONS_BEFORE && may_ask {
            true => u32::try_from(units).unwrap_or(u32::MAX),
            false => 0,
        };
        bucket.is_asked_for |= wanted > 0;
        known.leased += usize::from(wanted > 0);
        let is_needed = settled.is_some() || wanted > 0;
        is_needed.then(|| Leasing::new(self, &leases, subject, (settled, wanted)))
    }

    /// Counts what this process has used, if it can be leased.
    pub(super) fn count_use(&self, subject: &Subject, costs: &[u32], replies: &[Bytes]) {
        let Some(leases) = subject.leases() else {
            return;
        };
        let now = self.time();
        if let Some(bucket) = lock(&leases.known).buckets.get_mut(subject) {
            for (&cost, reply) in costs.iter().zip(replies) {
                if is_charged(reply) {
                    bucket.used.count(now, leases.time, [1, cost.into()]);
                }
            }
        }
    }
}

/// What a call says of leases. Until it is dropped, no other one brings a lease.
pub(super) struct Leasing {
    shared: Arc<Shared>,
    subject: Subject,
    leases: Arc<Leases>,
    /// The lease of before.
    settled: Option<Lease>,
    wanted: u32,
    asked: Stamp,
    asked_at: SystemTime,
}

impl Leasing {
    /// A call that settles this lease, which is not spent any more, and asks for so many units.
    fn new(
        shared: &Arc<Shared>,
        leases: &Arc<Leases>,
        subject: &Subject,
        (settled, wanted): (Option<Lease>, u32),
    ) -> Self {
        let left = settled.as_ref().map_or(0, |lease| lease.left);
        shared.usage().units_held -= u64::from(left);
        Self {
            shared: Arc::clone(shared),
            subject: subject.clone(),
            leases: Arc::clone(leases),
            settled,
            wanted,
            asked: shared.stamp(subject),
            asked_at: SystemTime::now(),
        }
    }

    /// Settles the lease of before, decides about these costs, and keeps the new lease.
    pub(super) async fn ask(
        &mut self,
        costs: &[u32],
        wait: Wait,
    ) -> Result<Vec<Bytes>, StoreError> {
        let (script, steps) = (self.subject.script.leased(), self.steps(costs));
        let nothing = (&self.subject.queries[..], Units::Asked(Ask::Look(0)));
        let replies = self.shared.ask(script, nothing, Some(steps), wait).await;
        self.answered(replies, costs)
    }

    /// The steps of the call: see `frame.lua`.
    fn steps(&self, costs: &[u32]) -> Bytes {
        let (mut steps, held_for) = (Vec::new(), self.leases.held_for);
        let mut push = |op: Op, cost: u32, numbers: &[u64]| {
            steps.push(op as u8);
            steps.extend_from_slice(&cost.to_le_bytes());
            for number in numbers {
                steps.extend_from_slice(&number.to_le_bytes()[..BYTES]);
            }
        };
        if let Some(lease) = &self.settled {
            let mut numbers = vec![lease.held.into(), held_for];
            numbers.extend(lease.by_member.iter().map(|it| it.generation));
            push(Op::Settle, lease.held - lease.left, &numbers);
        }
        let mut numbers = vec![0; 2 + self.members()];
        for &cost in costs {
            push(Op::Decide, cost, &numbers);
        }
        if self.wanted > 0 {
            numbers[..2].copy_from_slice(&[most_held(&self.subject.queries[0]), held_for]);
            push(Op::Lease, self.wanted, &numbers);
        }
        steps.into()
    }

    fn members(&self) -> usize {
        self.subject.queries[0].scripts.script.members().len()
    }

    /// The call has been answered, or has failed. Keeps the lease that it has brought; the replies
    /// to its decisions are left.
    fn answered(
        &mut self,
        replies: Result<Vec<Bytes>, StoreError>,
        costs: &[u32],
    ) -> Result<Vec<Bytes>, StoreError> {
        let unspent = self.settled.as_ref().map_or(0, |lease| lease.left);
        if unspent > 0 {
            self.shared.gave_back(&self.subject);
        }
        let [unspent, wanted] = [unspent, self.wanted].map(u64::from);
        match &replies {
            Ok(_) => self.shared.usage().units_given_back += unspent,
            Err(_) => self.shared.usage().units_lost += unspent + wanted,
        }
        let mut replies = of_each(replies?, costs.len());
        if self.settled.is_some() && replies.len() > costs.len() {
            replies.remove(0);
        }
        let brought = replies.split_off(costs.len().min(replies.len()));
        if let [held, reply] = &*brought
            && let Some((held, by_member)) = lease_of((held, reply), self.members())
            // No server holds more than it was asked for.
            && held <= self.wanted
        {
            self.begin(Lease {
                held,
                left: held,
                by_member,
                asked: self.asked,
                asked_at: self.asked_at,
                answered_at: self.shared.time(),
                reply: Bytes::copy_from_slice(reply),
            });
        }
        self.shared.count_use(&self.subject, costs, &replies);
        Ok(replies)
    }

    fn begin(&mut self, lease: Lease) {
        let mut known = lock(&self.leases.known);
        let mut usage = self.shared.usage();
        usage.units_leased += u64::from(lease.held);
        usage.units_held += u64::from(lease.held);
        drop(usage);
        let bucket = known.buckets.entry(self.subject.clone()).or_default();
        if lease.answered_at.saturating_sub(lease.asked.at) >= self.leases.time {
            // The server is slower than that: nothing can be spent, and others lack what is held.
            bucket.asks_again_at = lease.answered_at.saturating_add(self.leases.held_for);
        }
        bucket.is_asked_for = false;
        bucket.lease = Some(lease);
        self.wanted = 0;
        if (known.settling.as_ref()).is_none_or(AbortHandle::is_finished) {
            let settling = idle::settle(Arc::clone(&self.leases), Arc::clone(&self.shared));
            known.settling = Some(tokio::spawn(settling).abort_handle());
        }
    }
}

impl Drop for Leasing {
    fn drop(&mut self) {
        if self.wanted == 0 {
            return;
        }
        let mut known = lock(&self.leases.known);
        known.leased -= 1;
        if let Some(bucket) = known.buckets.get_mut(&self.subject) {
            bucket.is_asked_for = false;
        }
    }
}

#[cfg(test)]
mod tests;
