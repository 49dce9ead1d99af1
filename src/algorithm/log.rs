//! The rule that the sliding log and the sliding buckets share: what was admitted, and when.

use crate::{
    algorithm::{Additive, Algorithm, JudgedCost, Policy, Script, ScriptReply, Scripted, Status},
    clock::Timestamp,
    decision::{Judgement, LazyStatus},
    error::ConfigError,
    quota::Quota,
};

use super::{
    admissions::{Admissions, Counted},
    fixed_window::countable,
};

/// Counts what was admitted in a span that ends now, in slots of a fixed length.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) policy: Policy,
    pub(super) quota: Quota,
    pub(super) slot_micros: u64,
    /// How long after its slot began an entry still counts.
    span_micros: u64,
}

/// The largest total: what a Lua number holds exactly.
const MAX_TOTAL: u64 = (1 << 53) - 1;

impl Log {
    pub(super) fn new(
        policy: Policy,
        quota: Quota,
        slot_micros: u64,
        span_micros: u64,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            policy,
            quota: countable(quota)?,
            slot_micros,
            span_micros,
        })
    }

    /// The entries that still count now.
    #[inline]
    fn counted(&self, state: &Admissions, now: Timestamp) -> Counted {
        let slot = self.slot(state, now);
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

    /// The status of a log in which this is counted, and so many units more are held.
    #[inline]
    fn status_of(
        &self,
        (state, counted): (&Admissions, &Counted),
        held: u64,
        (cost, admitted): JudgedCost,
        now: Timestamp,
    ) -> Status {
        // What is held counts as the newest entry.
        let newest = match held {
            0 => state.stamp,
            _ => self.slot(state, now),
        };
        let units = counted.units.saturating_add(held);
        let slot_of = |number: u64| match number > counted.units {
            true => newest,
            false => state.slot_of_unit(counted, number),
        };
        // The last of the units that have to go before there is room for so many.
        let last_to_go =
            |wanted: u64| (units.saturating_add(wanted)).saturating_sub(self.quota.units());
        let more_after = slot_of(last_to_go(1).max(1));
        let cost_after = match admitted {
            true => 0,
            false => slot_of(last_to_go(cost.into())),
        };
        let numbers = [units, more_after, newest, cost_after];
        self.status_from(numbers, (cost, admitted), now)
    }

    /// The status of a log that tells how many units it counts, and the slots after whose end there
    /// is room for one unit more, for all of them, and for the cost, if it was refused.
    #[inline]
    fn status_from(
        &self,
        [units, more_after, all_after, cost_after]: [u64; 4],
        (cost, admitted): JudgedCost,
        now: Timestamp,
    ) -> Status {
        let until_over = |slot: u64| (slot + self.span_micros).saturating_sub(now.as_micros());
        let (limit, cost) = (self.quota.units(), u64::from(cost));
        let when = |slot| match units {
            0 => 0,
            _ => until_over(slot),
        };
        Status {
            remaining: limit.saturating_sub(units),
            judgement: match admitted {
                true => Judgement::Admitted,
                false if cost > limit => Judgement::NeverFits,
                false => Judgement::RefusedForMicros(until_over(cost_after)),
            },
            replenished_after_micros: when(more_after),
            reset_after_micros: when(all_after),
            delay_micros: 0,
        }
    }
}

impl Algorithm for Log {
    type State = Admissions;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn judge(&self, state: &Admissions, cost: u32, now: Timestamp) -> bool {
        cost == 0 || self.fits(state, cost.into(), now)
    }

    /// If there are more units than a Lua number tells apart, all become one entry, as of now.
    fn debit(&self, state: &mut Admissions, units: u64, now: Timestamp) {
        let (counted, slot) = (self.counted(state, now), self.slot(state, now));
        match counted.units.saturating_add(units) > MAX_TOTAL {
            true => *state = Admissions::of_one_entry(slot, MAX_TOTAL),
            false => state.append(&counted, units, slot),
        }
    }

    /// Takes the oldest units out, whichever were meant: those that stay count for as long or
    /// longer.
    fn refund(&self, state: &mut Admissions, cost: u32, now: Timestamp) {
        let counted = self.counted(state, now);
        state.forget(&counted);
        state.take_out(u64::from(cost));
    }

    #[inline]
    fn is_fresh(&self, state: &Admissions, now: Timestamp) -> bool {
        let is_over = state.is_empty() || state.stamp + self.span_micros <= self.slot_of(now);
        state.stamp <= now.as_micros() && is_over
    }

    fn fresh(&self, at: Timestamp) -> Admissions {
        Admissions::of_one_entry(self.slot_of(at), 0)
    }

    /// The entries that no longer count are searched for once.
    // Inlined always: a check of a sliding log takes 376 instructions so, and 427 otherwise (bench
    // `instructions_of_each`).
    #[inline(always)]
    fn step(&self, state: &mut Admissions, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let mut counted = self.counted(state, now);
        let units = counted.units.saturating_add(cost.into());
        let admitted = cost == 0 || units <= self.quota.units();
        if admitted && cost > 0 {
            state.append(&counted, cost.into(), self.slot(state, now));
            counted = state.all();
        }
        let status = self.status_of((state, &counted), 0, (cost, admitted), now);
        (admitted, LazyStatus::Known(status))
    }

    /// One entry: all units that count now, in the last one's slot.
    fn inherit(&self, shared: &Admissions, now: Timestamp) -> Admissions {
        Admissions::of_one_entry(shared.stamp, self.counted(shared, now).units)
    }

    fn status(&self, state: &Admissions, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.status_beside(state, 0, (cost, admitted), now)
    }
}

impl Additive for Log {
    fn fits(&self, state: &Admissions, units: u64, now: Timestamp) -> bool {
        self.counted(state, now).units.saturating_add(units) <= self.quota.units()
    }

    fn status_beside(
        &self,
        state: &Admissions,
        held: u64,
        cost: JudgedCost,
        now: Timestamp,
    ) -> Status {
        self.status_of((state, &self.counted(state, now)), held, cost, now)
    }
}

impl Scripted for Log {
    fn script() -> Script {
        Script::new("log", include_str!("log.lua"))
            .parameters(&["units", "slot", "span"])
            .state(&["expired", "total", "first_slot", "first_total", "last_slot"])
            .with_list(
                &["counted", "room_after", "fresh_after", "cost_after"],
                &["expired", "first_slot", "first_total", "drop"],
            )
            .with(|member| member.can_be_leased = true)
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.quota.units());
        output(self.slot_micros);
        output(self.span_micros);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Admissions> {
        Admissions::read(numbers).filter(|log| log.stamp <= at.as_micros())
    }

    /// After the numbers of the script, each entry between the first and the last.
    fn numbers(&self, state: &Admissions, _at: Timestamp, output: &mut dyn FnMut(u64)) {
        state.write(output);
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<LazyStatus> {
        let member = reply.next()?;
        let numbers = match (&*member.extra, &*member.numbers) {
            ([], &[expired, total, first, _, last]) => {
                [total.checked_sub(expired)?, first, last, 0]
            }
            (numbers, _) => numbers.try_into().ok()?,
        };
        let asked = (member.cost, member.admitted);
        Some(self.policy.as_enforced(asked, |asked| {
            LazyStatus::Known(self.status_from(numbers, asked, member.now))
        }))
    }
}

#[cfg(test)]
mod tests;
