//! The rule that the sliding log and the sliding buckets share: what was admitted, and when.

use crate::{
    algorithm::{Additive, Algorithm, Policy, Script, ScriptReply, Scripted, Status},
    clock::Timestamp,
    decision::{Judgement, LazyStatus},
    error::ConfigError,
    quota::Quota,
};

use super::{
    admissions::{Admissions, Counted},
    fixed_window::MAX_UNITS,
};

/// Counts what was admitted in a span that ends now, in slots of a fixed length.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) policy: Policy,
    quota: Quota,
    slot_micros: u64,
    /// How long after its slot began an entry still counts.
    span_micros: u64,
}

/// The largest total: what a Lua number holds exactly.
const MAX_TOTAL: u64 = (1 << 53) - 1;

impl Log {
    /// Whether the units that still count stay within the quota with this cost.
    #[inline]
    fn has_room(&self, counted: &Counted, cost: u32) -> bool {
        let cost = u64::from(cost);
        cost == 0 || counted.units.saturating_add(cost) <= self.quota.units()
    }

    /// The entries that still count in this slot.
    #[inline]
    fn counted(&self, state: &Admissions, slot: u64) -> Counted {
        state.counted(|entry| entry.slot + self.span_micros <= slot)
    }

    /// The current slot: that of now, or the log's last one if that is later.
    #[inline]
    fn slot(&self, state: &Admissions, now: Timestamp) -> u64 {
        self.slot_of(now).max(state.stamp)
    }

    #[inline]
    fn slot_of(&self, now: Timestamp) -> u64 {
        let micros = now.as_micros();
        match self.slot_micros {
            1 => micros,
            slot => micros - micros % slot,
        }
    }
}

impl Algorithm for Log {
    type State = Admissions;

    #[inline]
    fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline]
    fn judge(&self, state: &Admissions, cost: u32, now: Timestamp) -> bool {
        self.has_room(&self.counted(state, self.slot(state, now)), cost)
    }

    /// If there are more units than a Lua number tells apart, all become one entry, as of now.
    fn debit(&self, state: &mut Admissions, units: u64, now: Timestamp) {
        let slot = self.slot(state, now);
        let kept = self.counted(state, slot).units;
        if kept.saturating_add(units) > MAX_TOTAL {
            *state = Admissions::of_one_entry(slot, MAX_TOTAL);
            return;
        }
        let counted = self.counted(state, slot);
        state.append(&counted, units, slot);
    }

    /// Takes the oldest units out, whichever were meant: those that stay count for as long or
    /// longer.
    fn refund(&self, state: &mut Admissions, cost: u32, now: Timestamp) {
        let counted = self.counted(state, self.slot(state, now));
        state.forget(&counted);
        state.take_out(u64::from(cost));
    }

    #[inline]
    fn is_fresh(&self, state: &Admissions, now: Timestamp) -> bool {
        let is_over = state.is_empty() || state.stamp + self.span_micros <= self.slot_of(now);
        state.stamp <= now.as_micros() && is_over
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Admissions {
        Admissions::since(self.slot_of(at))
    }

    /// The entries that no longer count are searched for once.
    // Inlined always: a check of a sliding log takes 376 instructions so, and 427 otherwise (bench
    // `instructions_of_each`).
    #[inline(always)]
    fn step(&self, state: &mut Admissions, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let slot = self.slot(state, now);
        let mut counted = self.counted(state, slot);
        let admitted = self.has_room(&counted, cost);
        if admitted && cost > 0 {
            state.append(&counted, cost.into(), slot);
            counted = counted.with(cost.into(), slot);
        }
        (
            admitted,
            self.status_of(state, &counted, (cost, admitted), now),
        )
    }

    /// One entry: all units that count now, in the last one's slot.
    fn inherit(&self, shared: &Admissions, now: Timestamp) -> Admissions {
        let counted = self.counted(shared, self.slot(shared, now));
        shared.in_one_entry(&counted)
    }

    fn status(&self, state: &Admissions, cost: u32, admitted: bool, now: Timestamp) -> Status {
        (self.lazy_status(state, cost, admitted, now)).resolve(self.quota.units())
    }

    #[inline]
    fn lazy_status(
        &self,
        state: &Admissions,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> LazyStatus {
        let counted = self.counted(state, self.slot(state, now));
        self.status_of(state, &counted, (cost, admitted), now)
    }
}

/// What a log still counts.
struct Logged {
    units: u64,
    /// Once the entries up to these slots are over, there is room for one unit more, for all of
    /// them, and for the cost, if it was refused.
    more_after: u64,
    all_after: u64,
    cost_after: u64,
}

impl Log {
    #[inline]
    fn status_of(
        &self,
        state: &Admissions,
        counted: &Counted,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> LazyStatus {
        let limit = self.quota.units();
        // The slot that has to be over before there is room for these units.
        let after = |units: u64| {
            let units = (counted.units + units).saturating_sub(limit);
            state.slot_of_unit(counted, units)
        };
        let logged = Logged {
            units: counted.units,
            // If the quota was made smaller, more than the first entry may have to go.
            more_after: if counted.units <= limit {
                counted.first_slot
            } else {
                after(1)
            },
            all_after: state.stamp,
            cost_after: if admitted { 0 } else { after(u64::from(cost)) },
        };
        self.lazily(&logged, (cost, admitted), now)
    }

    #[inline]
    fn lazily(&self, logged: &Logged, cost: (u32, bool), now: Timestamp) -> LazyStatus {
        let numbers = [
            logged.units,
            logged.more_after,
            logged.all_after,
            logged.cost_after,
            now.as_micros(),
            self.slot_micros,
            self.span_micros,
        ];
        LazyStatus::new(cost, numbers, Self::resolve)
    }

    fn resolve(numbers: &[u64; 7], limit: u64, refused_cost: u64) -> Status {
        let [units, more_after, all_after, cost_after, now, slot, span] = *numbers;
        let until_over = |began: u64| {
            // An entry of an older precision may have begun in the middle of a slot.
            let over_at = match slot {
                1 => began + span,
                slot => (began + span).next_multiple_of(slot),
            };
            over_at.saturating_sub(now)
        };
        let remaining = limit.saturating_sub(units);
        let when = |slot| {
            if remaining < limit {
                until_over(slot)
            } else {
                0
            }
        };
        Status {
            remaining,
            judgement: match refused_cost {
                0 => Judgement::Admitted,
                cost if cost > limit => Judgement::NeverFits,
                _ => Judgement::RefusedForMicros(until_over(cost_after)),
            },
            replenished_after_micros: when(more_after),
            reset_after_micros: when(all_after),
            delay_micros: 0,
        }
    }
}

impl Log {
    pub(super) fn new(
        policy: Policy,
        quota: Quota,
        slot_micros: u64,
        span_micros: u64,
    ) -> Result<Self, ConfigError> {
        if quota.units() > MAX_UNITS {
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

    pub(super) fn quota(&self) -> Quota {
        self.quota
    }
}

impl Additive for Log {
    #[inline]
    fn fits(&self, state: &Admissions, units: u64, now: Timestamp) -> bool {
        let counted = self.counted(state, self.slot(state, now));
        counted.units.saturating_add(units) <= self.quota.units()
    }

    fn status_beside(
        &self,
        state: &Admissions,
        held: u64,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> Status {
        if held == 0 {
            return self.status(state, cost, admitted, now);
        }
        let (slot, limit) = (self.slot(state, now), self.quota.units());
        let counted = self.counted(state, slot);
        let all = counted.units.saturating_add(held);
        // What is held counts as the newest entry.
        let after = |units: u64| match all.saturating_add(units).saturating_sub(limit) {
            over if over > counted.units => slot,
            over => state.slot_of_unit(&counted, over),
        };
        let logged = Logged {
            units: all,
            more_after: match counted.units {
                0 => slot,
                _ if all <= limit => counted.first_slot,
                _ => after(1),
            },
            all_after: slot,
            cost_after: if admitted { 0 } else { after(cost.into()) },
        };
        self.lazily(&logged, (cost, admitted), now).resolve(limit)
    }
}

impl Scripted for Log {
    fn script() -> Script {
        Script::new("log", include_str!("log.lua"))
            .parameters(&["units", "slot", "span"])
            .state(&["expired", "total", "first_slot", "first_total", "last_slot"])
            .with_list(&["counted", "room_after", "fresh_after", "cost_after"])
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.quota.units());
        tell(self.slot_micros);
        tell(self.span_micros);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Admissions> {
        Admissions::read(numbers).filter(|log| log.stamp <= at.as_micros())
    }

    /// After the numbers of the script, each entry between the first and the last.
    fn numbers(&self, state: &Admissions, _at: Timestamp, tell: &mut dyn FnMut(u64)) {
        state.write(tell);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<LazyStatus> {
        let member = reply.next_member()?;
        let now = member.now;
        let [units, more_after, all_after, cost_after] = match (member.told, member.numbers) {
            (&[units, more_after, all_after, cost_after], _) => {
                [units, more_after, all_after, cost_after]
            }
            ([], &[expired, total, first, _, last]) => {
                [total.checked_sub(expired)?, first, last, 0]
            }
            _ => return None,
        };
        // Entries that still count end after now, and in their order.
        let own = now.max(member.at);
        let this_slot = self.slot_of(own);
        let waits_for = |slot: u64| slot + self.span_micros > this_slot;
        let makes_sense = units == 0
            || (all_after >= more_after.max(cost_after)
                && all_after <= own.as_micros() + self.span_micros
                && waits_for(more_after)
                && (cost_after == 0 || waits_for(cost_after)));
        let logged = Logged {
            units,
            more_after,
            all_after,
            cost_after,
        };
        makes_sense.then(|| self.lazily(&logged, (member.cost, member.admitted), now))
    }
}

#[cfg(test)]
mod tests;
