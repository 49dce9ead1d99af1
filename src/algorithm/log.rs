//! The rule that the sliding log and the sliding buckets share: what was admitted, and when.

use std::collections::VecDeque;

use crate::{
    algorithm::{Algorithm, Policy, PolicyId},
    clock::Timestamp,
    decision::{Decision, PolicyDecision, Standing},
    error::ConfigError,
    quota::Quota,
};

use super::fixed_window::MOST_UNITS;

/// Counts what was admitted in a span that ends now, in slots of a fixed length.
#[derive(Debug, Clone)]
pub struct Log {
    policy: Policy,
    quota: Quota,
    slot_micros: u64,
    /// How long after its slot began an entry still counts.
    span_micros: u64,
}

impl Log {
    pub(super) fn new(
        policy: Policy,
        quota: Quota,
        slot_micros: u64,
        span_micros: u64,
    ) -> Result<Self, ConfigError> {
        if quota.units() > MOST_UNITS {
            return Err(ConfigError::QuotaTooLarge {
                units: quota.units(),
                period: quota.period(),
            });
        }
        Ok(Self {
            policy,
            quota,
            slot_micros,
            span_micros,
        })
    }

    pub(super) fn named(mut self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.policy = self.policy.named(name)?;
        Ok(self)
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn quota(&self) -> Quota {
        self.quota
    }

    #[inline]
    fn slot_of(&self, now: Timestamp) -> u64 {
        let micros = now.as_micros();
        match self.slot_micros {
            1 => micros,
            slot => micros - micros % slot,
        }
    }

    /// The slot it is: the one of now, or the newest one of the log if that is later.
    #[inline]
    fn slot(&self, state: &Admissions, now: Timestamp) -> u64 {
        self.slot_of(now).max(state.stamp)
    }

    /// How many entries no longer count.
    #[inline]
    fn expired(&self, state: &Admissions, now: Timestamp) -> usize {
        let slot = self.slot(state, now);
        let is_over = |entry: &Entry| entry.slot + self.span_micros <= slot;
        match state.entries.front() {
            Some(first) if is_over(first) => state.entries.partition_point(is_over),
            _ => 0,
        }
    }

    #[inline]
    fn counted(&self, state: &Admissions, now: Timestamp) -> Counted {
        let first = self.expired(state, now);
        let before = match first.checked_sub(1) {
            Some(last_expired) => state.entries[last_expired].total,
            None => state.forgotten,
        };
        Counted {
            first,
            before,
            units: state.total() - before,
        }
    }

    fn forget_expired(&self, state: &mut Admissions, now: Timestamp) {
        let expired = self.expired(state, now);
        if let Some(last) = expired.checked_sub(1) {
            state.forgotten = state.entries[last].total;
            state.entries.drain(..expired);
        }
    }

    fn micros_until_over(&self, entry: &Entry, now: Timestamp) -> u64 {
        let over_at = entry.slot + self.span_micros;
        // An entry of an older precision may have begun in the middle of a slot of today's.
        let over_at = match self.slot_micros {
            1 => over_at,
            slot => over_at.next_multiple_of(slot),
        };
        over_at - now.as_micros()
    }

    #[inline(always)]
    fn told(&self, snapshot: &Standing) -> PolicyDecision {
        PolicyDecision::new(&self.policy, *snapshot)
    }
}

/// What was admitted, oldest first.
#[derive(Debug, Clone)]
pub struct Admissions {
    entries: VecDeque<Entry>,
    /// The running total when the entries began.
    forgotten: u64,
    /// The slot that the log was last written in.
    stamp: u64,
}

impl Admissions {
    #[inline]
    fn total(&self) -> u64 {
        self.entries
            .back()
            .map_or(self.forgotten, |last| last.total)
    }
}

/// What was admitted up to the end of a slot.
#[derive(Debug, Clone, Copy)]
struct Entry {
    slot: u64,
    /// All units ever admitted, so that a sum over entries is one subtraction.
    total: u64,
}

#[cfg(test)]
pub(super) const BYTES_PER_ENTRY: usize = size_of::<Entry>();

/// The entries that still count.
struct Counted {
    first: usize,
    /// The running total before them.
    before: u64,
    units: u64,
}

impl Algorithm for Log {
    type State = Admissions;
    type Snapshot = Standing;

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Admissions {
        Admissions {
            entries: VecDeque::new(),
            forgotten: 0,
            stamp: self.slot_of(at),
        }
    }

    #[inline]
    fn settle(&self, state: &mut Admissions, now: Timestamp) {
        let slot = self.slot_of(now);
        if state.stamp > slot + self.span_micros {
            self.forget_expired(state, now);
            let back = state.stamp - slot;
            for entry in &mut state.entries {
                entry.slot = entry.slot.saturating_sub(back);
            }
            state.stamp = slot;
        }
    }

    #[inline]
    fn judge(&self, state: &Admissions, cost: u32, now: Timestamp) -> bool {
        let cost = u64::from(cost);
        cost == 0
            || cost <= self.quota.units()
                && self.counted(state, now).units + cost <= self.quota.units()
    }

    #[inline]
    fn charge(&self, state: &mut Admissions, cost: u32, now: Timestamp) {
        self.forget_expired(state, now);
        let slot = self.slot(state, now);
        let total = state.total() + u64::from(cost);
        state.stamp = slot;
        match state.entries.back_mut() {
            Some(last) if last.slot == slot => last.total = total,
            _ => state.entries.push_back(Entry { slot, total }),
        }
    }

    /// Takes the newest units out again.
    fn refund(&self, state: &mut Admissions, cost: u32, now: Timestamp) {
        self.forget_expired(state, now);
        let left = (state.total() - state.forgotten).saturating_sub(u64::from(cost));
        let total = state.forgotten + left;
        while let Some(last) = state.entries.pop_back() {
            if state.total() < total {
                state.entries.push_back(Entry { total, ..last });
                break;
            }
        }
    }

    #[inline]
    fn is_fresh(&self, state: &Admissions, now: Timestamp) -> bool {
        state.stamp <= self.slot_of(now)
            && (state.entries.back())
                .is_none_or(|last| last.slot + self.span_micros <= self.slot_of(now))
    }

    #[inline]
    fn snapshot(&self, state: &Admissions, cost: u32, admitted: bool, now: Timestamp) -> Standing {
        let counted = self.counted(state, now);
        let limit = self.quota.units();
        let remaining = limit.saturating_sub(counted.units);
        let wait = |units: u64| {
            if units > limit {
                return None;
            }
            let too_many = (counted.units + units).saturating_sub(limit);
            if too_many == 0 {
                return Some(0);
            }
            // The first and the last are asked for each time, the others only after a refusal.
            let is_enough = |entry: &Entry| entry.total - counted.before >= too_many;
            let first = &state.entries[counted.first];
            let entry = match is_enough(first) {
                true => first,
                false if too_many == counted.units => state.entries.back()?,
                false => {
                    &state.entries[state
                        .entries
                        .partition_point(|entry| entry.total < counted.before || !is_enough(entry))]
                }
            };
            Some(self.micros_until_over(entry, now))
        };
        Standing::of(limit, remaining, u64::from(cost), admitted, wait)
    }

    #[inline]
    fn describe(&self, snapshot: &Standing, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(self.told(snapshot));
    }

    #[inline(always)]
    fn decision(&self, snapshot: &Standing) -> Decision {
        Decision::of_one(self.told(snapshot))
    }
}
