//! Refusals that a store remembers. Until its turn a request by the same limits about the same keys
//! is refused here, as Redis would refuse it.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use bytes::Bytes;

use crate::{algorithm::Member, store::Source};

use super::{
    Shared,
    changes::Stamp,
    joined::{Origin, Replied, Subject},
    lock,
};

/// The most refusals. Before one more is kept, all are forgotten: what is flooded is soon refused
/// again.
const MAX_REFUSALS: usize = 10_000;

/// What Redis has refused lately.
pub(super) struct Refusals {
    /// For how long a refusal counts at most, and at least, in microseconds.
    longest: u64,
    shortest: u64,
    known: Mutex<HashMap<Subject, Refusal>>,
}

/// A refusal. Times are in microseconds.
struct Refusal {
    cost: u32,
    /// What Redis has replied.
    reply: Bytes,
    asked: Stamp,
    answered_at: u64,
    /// How long after the instant of the decision the first of its limits would admit it, once it
    /// was worked out. 0 if it would then.
    fits_after: Option<u64>,
}

impl Refusals {
    pub(super) fn new(longest: Duration, shortest: Duration) -> Self {
        let [longest, shortest] =
            [longest, shortest].map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX));
        Self {
            longest,
            shortest,
            known: Mutex::default(),
        }
    }
}

impl Shared {
    /// The stamp of a call about this; none, if its refusals are not to be remembered.
    pub(super) fn stamp_to_remember(&self, subject: &Subject) -> Option<Stamp> {
        self.refusals.as_ref()?;
        // What is held beside a list, and what a limit in shadow would say, is not told later.
        let is_held = |member: &Member| member.settled || subject.leases().is_some();
        let is_unsaid = |member: &Member| member.in_shadow || member.has_list() && is_held(member);
        (!subject.has(is_unsaid)).then(|| self.stamp(subject))
    }

    /// The reply to a refused request, if this cost would still be refused. `fits_after` says of a
    /// reply and its cost for how long they would be refused.
    ///
    /// Redis has decided between when it was asked and when it answered. Whether the cost fits is
    /// judged by the earlier instant, and how long it waits is told by the later one.
    pub(super) fn refused(
        &self,
        subject: &Subject,
        cost: u32,
        fits_after: impl FnOnce(&Bytes, u32) -> Option<u64>,
    ) -> Option<Replied> {
        let refusals = self.refusals.as_ref()?;
        let now = self.stamp(subject);
        let mut known = lock(&refusals.known);
        // One that is over stays until the next answer.
        let refusal = known.get_mut(subject)?;
        if refusal.fits_after.is_none() {
            refusal.fits_after = fits_after(&refusal.reply, refusal.cost);
        }
        let fits_after = refusal.fits_after?;
        let counts_for = fits_after.min(refusals.longest).max(refusals.shortest);
        let age = now.at.checked_sub(refusal.asked.at)?;
        if fits_after == 0 || age >= counts_for || now.is_changed_since(refusal.asked) {
            return None;
        }
        let is_as_large = cost == refusal.cost || cost > refusal.cost && subject.says_all();
        let since = now.at.saturating_sub(refusal.answered_at);
        // If it counts beyond its turn, it says how long it still counts.
        let since = since.min(fits_after.saturating_sub(counts_for - age));
        let origin = Origin {
            source: Source::Remembered,
            micros_ago: since,
        };
        is_as_large.then(|| (refusal.reply.clone(), origin))
    }

    /// Forgets what was refused about this, if anything was.
    pub(super) fn forget(&self, subject: &Subject) -> bool {
        let refusals = self.refusals.as_ref();
        refusals.is_some_and(|it| lock(&it.known).remove(subject).is_some())
    }

    /// Remembers what Redis has refused, unless a bucket was changed meanwhile: a change that Redis
    /// has made later may have been answered earlier.
    pub(super) fn remember(&self, subject: &Subject, asked: Stamp, cost: u32, reply: &Bytes) {
        let Some(refusals) = &self.refusals else {
            return;
        };
        let answered = self.stamp(subject);
        if answered.is_changed_since(asked) {
            return;
        }
        let refusal = Refusal {
            cost,
            // Not a part of what a connection has read, which is larger.
            reply: Bytes::copy_from_slice(reply),
            asked,
            answered_at: answered.at,
            fits_after: None,
        };
        let mut known = lock(&refusals.known);
        if known.len() >= MAX_REFUSALS && !known.contains_key(subject) {
            known.clear();
        }
        known.insert(subject.clone(), refusal);
    }
}

#[cfg(test)]
mod tests;
