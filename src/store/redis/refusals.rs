//! Refusals that a store remembers. Until its turn a request by the same limits about the same keys
//! is refused here, as Redis would refuse it.

use std::{
    array,
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{Shared, joined::Subject, lock, reply::is_charged};

/// The most refusals: one more, and those are forgotten that are over or that nobody has asked for
/// again, or all, if there are none of them.
const MAX_REFUSALS: usize = 10_000;

/// Changes are counted for so many groups of buckets.
const GROUPS: usize = 1_024;

/// What Redis has refused lately.
pub(super) struct Refusals {
    /// For how long a refusal counts at most, in microseconds.
    longest: u64,
    known: Mutex<HashMap<Subject, Refusal>>,
    hasher: RandomState,
    /// How often a change of a bucket, other than by a decision, has begun or ended.
    changes: [AtomicU64; GROUPS],
    begin: Instant,
}

/// A refusal. Times are in microseconds.
struct Refusal {
    cost: u32,
    /// What Redis has replied.
    reply: Bytes,
    asked: Asked,
    answered_at: u64,
    /// How long after the instant of the decision the first of its limits would admit it, once it
    /// was worked out.
    fits_after: Option<u64>,
}

/// When a call was sent, and the changes of its buckets until then.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    at: u64,
    changes: u64,
}

impl Refusals {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest: u64::try_from(longest.as_micros()).unwrap_or(u64::MAX),
            known: Mutex::default(),
            hasher: RandomState::new(),
            changes: array::from_fn(|_| AtomicU64::new(0)),
            begin: Instant::now(),
        }
    }

    fn changes_of(&self, key: &Bytes) -> &AtomicU64 {
        &self.changes[self.hasher.hash_one(key) as usize % GROUPS]
    }
}

impl Shared {
    /// The time by which the age of a refusal is told.
    fn time(&self, refusals: &Refusals) -> u64 {
        match &self.clock {
            Some(now) => now().as_micros(),
            None => refusals.begin.elapsed().as_micros() as u64,
        }
    }

    fn asked(&self, refusals: &Refusals, subject: &Subject) -> Asked {
        let changes = subject
            .states()
            .map(|key| refusals.changes_of(key).load(SeqCst));
        Asked {
            changes: changes.fold(0, u64::wrapping_add),
            at: self.time(refusals),
        }
    }

    /// A call about this is sent now; none, if its refusals are not to be remembered.
    pub(super) fn asks(&self, subject: &Subject) -> Option<Asked> {
        let refusals = self.refusals.as_ref()?;
        let is_told = !subject.has(|member| member.in_shadow);
        is_told.then(|| self.asked(refusals, subject))
    }

    /// The reply to a refused request, if this cost would still be refused, and how many
    /// microseconds have passed since it was answered. `fits_after` says of a reply and its cost for
    /// how long they would be refused.
    ///
    /// Redis has decided between when it was asked and when it answered. Whether the cost fits is
    /// judged by the earlier instant, and how long it waits is told by the later one.
    pub(super) fn refused(
        &self,
        subject: &Subject,
        cost: u32,
        fits_after: impl FnOnce(&Bytes, u32) -> Option<u64>,
    ) -> Option<(Bytes, u64)> {
        let refusals = self.refusals.as_ref()?;
        let asked = self.asked(refusals, subject);
        let mut known = lock(&refusals.known);
        let refusal = known.get_mut(subject)?;
        if refusal.fits_after.is_none() {
            refusal.fits_after = fits_after(&refusal.reply, refusal.cost);
        }
        let counts_for = refusal.fits_after?.min(refusals.longest);
        let age = asked.at.checked_sub(refusal.asked.at);
        if age.is_none_or(|age| age >= counts_for) || asked.changes != refusal.asked.changes {
            known.remove(subject);
            return None;
        }
        let is_as_large = cost == refusal.cost || cost > refusal.cost && subject.tells_all();
        let since = asked.at.saturating_sub(refusal.answered_at);
        is_as_large.then(|| (refusal.reply.clone(), since))
    }

    /// Whether a refusal about this is remembered.
    pub(super) fn remembers(&self, subject: &Subject) -> bool {
        let refusals = self.refusals.as_ref();
        refusals.is_some_and(|refusals| lock(&refusals.known).contains_key(subject))
    }

    /// Remembers what Redis has refused, unless a bucket was changed meanwhile: a change that Redis
    /// has made later may have been answered earlier.
    pub(super) fn remember(
        &self,
        subject: &Subject,
        asked: Option<Asked>,
        cost: u32,
        reply: &Bytes,
    ) {
        let (Some(refusals), Some(asked)) = (&self.refusals, asked) else {
            return;
        };
        let answered = self.asked(refusals, subject);
        let mut known = lock(&refusals.known);
        if is_charged(reply) {
            known.remove(subject);
        }
        if is_charged(reply) || answered.changes != asked.changes {
            return;
        }
        if known.len() >= MAX_REFUSALS {
            known.retain(|_, it| {
                answered.at.saturating_sub(it.asked.at) < it.fits_after.unwrap_or(0)
            });
            if known.len() >= MAX_REFUSALS {
                known.clear();
            }
        }
        let refusal = Refusal {
            cost,
            reply: reply.clone(),
            asked,
            answered_at: answered.at,
            fits_after: None,
        };
        known.insert(subject.clone(), refusal);
    }

    /// The bucket of this key is changed other than by a decision, until the guard is dropped.
    pub(super) fn changing(self: &Arc<Self>, key: &Bytes) -> Option<Changing> {
        self.refusals.as_ref()?;
        let changing = Changing {
            shared: Arc::clone(self),
            key: key.clone(),
        };
        changing.count();
        Some(changing)
    }
}

/// A change that has begun. What was refused before it begins or while it lasts is forgotten.
pub(super) struct Changing {
    shared: Arc<Shared>,
    key: Bytes,
}

impl Changing {
    fn count(&self) {
        if let Some(refusals) = &self.shared.refusals {
            refusals.changes_of(&self.key).fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.count();
    }
}
