//! The rule that the sliding log and the sliding buckets share: what was admitted, and when.
//!
//! Several plans share the entries: each counts as many of them, and for as long, as its own
//! numbers say. An entry is kept until it matters to no plan that was admitted: until it is older
//! than the longest span, or the newer units fill the largest quota.

use std::{ops, sync::Arc};

use crate::{
    algorithm::{Additive, Algorithm, ConfigId, Policy, PolicyId, Script, ScriptReply, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
    lazy_arc::LazyArc,
    quota::Quota,
};

use self::status::Logged;
use super::{
    additive::look_beside_mended,
    admissions::{Admissions, Counted},
    fixed_window::MAX_UNITS,
    plans::next_of,
};

mod status;

/// Counts what was admitted in a span that ends now, in slots of a fixed length.
#[derive(Debug, Clone)]
pub struct Log {
    policy: Policy,
    quota: Quota,
    slot_micros: u64,
    /// How long after its slot began an entry still counts.
    span_micros: u64,
    own: LazyArc<Retention>,
}

/// Below this quota the low 32 bits tell totals apart.
const SMALL_QUOTA: u64 = 1 << 31;
/// The largest total: what a Lua number holds exactly.
const MAX_TOTAL: u64 = (1 << 53) - 1;

/// The state of a log.
#[derive(Debug, Clone)]
pub struct LogState {
    admissions: Admissions,
    retention: Arc<Retention>,
}

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

    /// Adds what was admitted in this slot.
    #[inline]
    fn appended(&self, state: &mut LogState, units: u64, (slot, now): (u64, Timestamp)) {
        if !state.only_own_plan_counted(&self.own) {
            return state.append_beside_others((&self.own, self.span_micros), units, (slot, now));
        }
        let counted = self.counted(state, slot);
        state.append(&counted, units, slot);
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
    type State = LogState;
    type Snapshot = LogSnapshot;

    #[inline]
    fn judge(&self, state: &LogState, cost: u32, now: Timestamp) -> bool {
        self.has_room(&self.counted(state, self.slot(state, now)), cost)
    }

    #[inline]
    fn charge(&self, state: &mut LogState, cost: u32, now: Timestamp) {
        let slot = self.slot(state, now);
        self.appended(state, cost.into(), (slot, now));
    }

    /// If there are more units than the totals of a list in Redis can tell apart, all become one
    /// entry, as of now.
    fn debit(&self, state: &mut LogState, units: u64, now: Timestamp) {
        let slot = self.slot(state, now);
        let (mut kept, mut largest) = (self.counted(state, slot).units, self.quota.units());
        if !state.only_own_plan_counted(&self.own) {
            let Retention { latest, others } = &*state.retention;
            kept = state.all().units;
            largest = (largest.max(latest.units)).max(others.map_or(0, |(reach, _)| reach.units));
        }
        let most = match largest {
            ..SMALL_QUOTA => u64::from(u32::MAX),
            _ => MAX_TOTAL,
        };
        if kept.saturating_add(units) > most {
            state.admissions = Admissions::of_one_entry(slot, most.saturating_sub(units));
        }
        self.appended(state, units.min(most), (slot, now));
    }

    /// Takes the oldest units out, whichever were meant: those that stay count for as long or
    /// longer.
    fn refund(&self, state: &mut LogState, cost: u32, now: Timestamp) {
        if state.only_own_plan_counted(&self.own) {
            let counted = self.counted(state, self.slot(state, now));
            state.forget(&counted);
        }
        state.take_out(u64::from(cost));
    }

    #[inline]
    fn mend(&self, state: &mut LogState, now: Timestamp) {
        self.mend_in(state, now);
    }

    #[inline]
    fn is_fresh(&self, state: &LogState, now: Timestamp) -> bool {
        let slot = self.slot_of(now);
        let is_over = state.is_empty() || state.stamp + self.span_micros <= slot;
        state.stamp <= now.as_micros()
            && is_over
            && (state.only_own_plan_counted(&self.own) || {
                let Retention { latest, others } = &*state.retention;
                let until = others.map_or(0, |(_, until)| until);
                state.is_empty() || (state.stamp + latest.micros).max(until) <= now.as_micros()
            })
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> LogState {
        LogState {
            admissions: Admissions::since(self.slot_of(at)),
            retention: self.own.shared(),
        }
    }

    /// The entries that no longer count are searched for once.
    // Inlined always: a check of a sliding log takes 376 instructions so, and 427 otherwise (bench
    // `instructions_of_each`).
    #[inline(always)]
    fn step(&self, state: &mut LogState, cost: u32, now: Timestamp) -> (bool, LogSnapshot) {
        let slot = self.slot_of(now);
        self.mend_in(state, now);
        let slot = slot.max(state.stamp);
        let mut counted = self.counted(state, slot);
        let admitted = self.has_room(&counted, cost);
        if admitted && cost > 0 {
            if state.only_own_plan_counted(&self.own) {
                state.append(&counted, cost.into(), slot);
                counted = state.all();
            } else {
                state.append_beside_others((&self.own, self.span_micros), cost.into(), (slot, now));
                counted = self.counted(state, slot);
            }
        }
        (
            admitted,
            self.snapshot_of(state, &counted, (cost, admitted), now),
        )
    }

    /// One entry: all units that count now, in the last one's slot. What counts for other plans
    /// alone is one entry more.
    fn inherit(&self, shared: &LogState, now: Timestamp) -> LogState {
        let counted = self.counted(shared, self.slot(shared, now));
        let admissions = match shared.only_own_plan_counted(&self.own) {
            true => shared.in_one_entry(&counted),
            false => shared.in_two_entries(&counted),
        };
        let retention = Arc::clone(&shared.retention);
        LogState {
            admissions,
            retention,
        }
    }

    #[inline]
    fn snapshot(&self, state: &LogState, cost: u32, admitted: bool, now: Timestamp) -> LogSnapshot {
        let counted = self.counted(state, self.slot(state, now));
        self.snapshot_of(state, &counted, (cost, admitted), now)
    }

    /// Copies the log only where the clock has stepped back by more than a span.
    fn look(&self, state: &LogState, cost: u32, now: Timestamp) -> (bool, LogSnapshot) {
        let told = |state: &LogState| {
            let admitted = self.judge(state, cost, now);
            let refused_cost = if admitted { 0 } else { cost };
            (admitted, self.snapshot(state, refused_cost, admitted, now))
        };
        if state.stamp <= self.slot_of(now) + self.span_micros {
            return told(state);
        }
        let mut mended = state.clone();
        self.mend(&mut mended, now);
        told(&mended)
    }

    #[inline]
    fn describe(&self, snapshot: &LogSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(self.policy_decision(snapshot).resolved());
    }

    #[inline]
    fn decision(&self, snapshot: &LogSnapshot) -> Decision {
        Decision::of_one(self.policy_decision(snapshot))
    }

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }

    #[inline]
    fn config_id(&self) -> ConfigId {
        self.policy.config_id()
    }
}

/// The status of a log right after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSnapshot {
    units: u64,
    /// Once the entries up to these slots are over, there is room for one unit more, for all of
    /// them, and for the cost, if it was refused.
    more_after: u64,
    all_after: u64,
    cost_after: u64,
    now: Timestamp,
    cost: u32,
    admitted: bool,
}

impl Log {
    /// Moves a log back that is more than a span ahead of now.
    #[inline]
    fn mend_in(&self, state: &mut LogState, now: Timestamp) {
        if state.stamp > self.slot_of(now) + self.span_micros {
            self.move_back(state, now);
        }
    }

    /// The last entry is then as of now, not as of the start of its slot: in a slot that is about
    /// to end it would be over too soon.
    fn move_back(&self, state: &mut LogState, now: Timestamp) {
        let by = state.stamp - now.as_micros();
        if !state.only_own_plan_counted(&self.own) {
            return state.move_back_beside_others(by);
        }
        let counted = self.counted(state, state.stamp);
        state.forget(&counted);
        state.admissions.move_back(by);
    }

    #[inline]
    fn snapshot_of(
        &self,
        state: &Admissions,
        counted: &Counted,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> LogSnapshot {
        let limit = self.quota.units();
        // The slot that has to be over before there is room for these units.
        let after = |units: u64| {
            let units = (counted.units + units).saturating_sub(limit);
            state.slot_of_unit(counted, units)
        };
        LogSnapshot {
            units: counted.units,
            // If the quota was made smaller, more than the first entry may have to go.
            more_after: if counted.units <= limit {
                counted.first_slot
            } else {
                after(1)
            },
            all_after: state.stamp,
            cost_after: if admitted { 0 } else { after(u64::from(cost)) },
            now,
            cost,
            admitted,
        }
    }

    #[inline]
    fn policy_decision(&self, snapshot: &LogSnapshot) -> PolicyDecision {
        let logged = Logged {
            units: snapshot.units,
            more_after: snapshot.more_after,
            all_after: snapshot.all_after,
            cost_after: snapshot.cost_after,
            now_micros: snapshot.now.as_micros(),
            slot_micros: self.slot_micros,
            span_micros: self.span_micros,
        };
        let refused_cost = if snapshot.admitted { 0 } else { snapshot.cost };
        PolicyDecision::lazy(&self.policy, logged.lazy(refused_cost))
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
        let latest = Reach {
            micros: span_micros + slot_micros - 1,
            units: quota.units(),
            slot_micros,
        };
        Ok(Self {
            policy,
            quota,
            slot_micros,
            span_micros,
            own: LazyArc::new(Retention {
                latest,
                others: None,
            }),
        })
    }

    pub(super) fn named(mut self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.policy = self.policy.named(name)?;
        Ok(self)
    }

    pub(super) fn with_policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(super) fn quota(&self) -> Quota {
        self.quota
    }
}

impl ops::Deref for LogState {
    type Target = Admissions;

    #[inline]
    fn deref(&self) -> &Admissions {
        &self.admissions
    }
}

impl ops::DerefMut for LogState {
    #[inline]
    fn deref_mut(&mut self) -> &mut Admissions {
        &mut self.admissions
    }
}

/// For which plans entries are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Retention {
    /// For the latest plan.
    latest: Reach,
    /// For all others, and until when that matters.
    others: Option<(Reach, u64)>,
}

/// Which entries matter to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    /// An entry is over this long after its slot began.
    micros: u64,
    /// How many of the newest units matter.
    units: u64,
    /// How long a slot is: two plans may differ in nothing else.
    slot_micros: u64,
}

impl LogState {
    #[inline]
    fn only_own_plan_counted(&self, own: &LazyArc<Retention>) -> bool {
        own.is(&self.retention)
    }

    /// Appends what this plan admitted, and drops what no longer matters to any plan.
    fn append_beside_others(
        &mut self,
        (own, span_micros): (&LazyArc<Retention>, u64),
        units: u64,
        (slot, now): (u64, Timestamp),
    ) {
        let Retention { latest, others } = *self.retention;
        let micros = now.as_micros();
        let mut others = others.filter(|(_, until)| *until > micros);
        let main_until = self.stamp + latest.micros;
        if latest != own.latest && main_until > micros && !self.is_empty() {
            others = Some(match others {
                Some((reach, until)) => (reach.with(latest), until.max(main_until)),
                None => (latest, main_until),
            });
        }
        let (all, latest) = match others {
            Some((reach, _)) => (reach.with(own.latest), micros.max(self.stamp)),
            // No other plan is left.
            None => (
                Reach {
                    micros: span_micros,
                    units: u64::MAX,
                    slot_micros: own.latest.slot_micros,
                },
                slot,
            ),
        };
        let enough = (self.total().saturating_add(units)).saturating_sub(all.units);
        let kept = self.counted(|entry| entry.slot + all.micros <= latest || entry.total <= enough);
        self.append(&kept, units, slot);
        if others.is_none() {
            self.retention = own.shared();
            return;
        }
        let latest = own.latest;
        let retention = Retention { latest, others };
        match Arc::get_mut(&mut self.retention) {
            Some(before) => *before = retention,
            None => self.retention = Arc::new(retention),
        }
    }

    fn move_back_beside_others(&mut self, by: u64) {
        self.move_back(by);
        if self.retention.others.is_some() {
            let retention = Arc::make_mut(&mut self.retention);
            retention.others = retention
                .others
                .map(|(reach, until)| (reach, until.saturating_sub(by)));
        }
    }
}

impl Reach {
    fn with(self, other: Self) -> Self {
        Self {
            micros: self.micros.max(other.micros),
            units: self.units.max(other.units),
            slot_micros: self.slot_micros.max(other.slot_micros),
        }
    }

    fn write(self, tell: &mut dyn FnMut(u64)) {
        tell(self.micros);
        tell(self.units);
        tell(self.slot_micros);
    }

    fn read(numbers: &mut &[u64]) -> Option<Self> {
        Some(Self {
            micros: next_of(numbers)?,
            units: next_of(numbers)?,
            slot_micros: next_of(numbers)?,
        })
    }

    /// The id of this plan.
    fn id(self) -> u64 {
        let mixed = [self.micros, self.units, self.slot_micros].iter().fold(
            0x9E37_79B9_7F4A_7C15_u64,
            |mixed, number| {
                let mixed = (mixed ^ number).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
                mixed ^ (mixed >> 29)
            },
        );
        // 0 is for a state of several plans.
        (mixed >> 11).max(1)
    }
}

impl Additive for Log {
    #[inline]
    fn fits(&self, state: &LogState, units: u64, now: Timestamp) -> bool {
        let counted = self.counted(state, self.slot(state, now));
        counted.units.saturating_add(units) <= self.quota.units()
    }

    fn snapshot_beside(
        &self,
        state: &LogState,
        held: u64,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> LogSnapshot {
        if held == 0 {
            return self.snapshot(state, cost, admitted, now);
        }
        let (slot, limit) = (self.slot(state, now), self.quota.units());
        let counted = self.counted(state, slot);
        let all = counted.units.saturating_add(held);
        // What is held counts as the newest entry.
        let after = |units: u64| match all.saturating_add(units).saturating_sub(limit) {
            over if over > counted.units => slot,
            over => state.slot_of_unit(&counted, over),
        };
        LogSnapshot {
            units: all,
            more_after: match counted.units {
                0 => slot,
                _ if all <= limit => counted.first_slot,
                _ => after(1),
            },
            all_after: slot,
            cost_after: if admitted { 0 } else { after(cost.into()) },
            now,
            cost,
            admitted,
        }
    }

    fn look_beside(
        &self,
        state: &LogState,
        held: u64,
        cost: u32,
        now: Timestamp,
    ) -> (bool, LogSnapshot) {
        if state.stamp <= self.slot_of(now) + self.span_micros {
            return look_beside_mended(self, state, held, cost, now);
        }
        let mut mended = state.clone();
        self.mend(&mut mended, now);
        look_beside_mended(self, &mended, held, cost, now)
    }
}

impl Scripted for Log {
    fn script() -> Script {
        Script::new("log", include_str!("log.lua"))
            .parameters(&["units", "slot_micros", "span_micros", "own_id"])
            .state(&[
                "expired_total",
                "total",
                "first_slot",
                "first_total",
                "last_slot",
            ])
            .private_state(&["id", "shift"])
            .tail([32, 80])
            .keys(&["list"])
            .requires(&[
                ("checksum", super::script::CHECKSUM),
                ("log_seek", include_str!("log_seek.lua")),
            ])
            .with_part_in_place("another plan")
            .replies(&["counted", "room_after", "fresh_after", "cost_after"])
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.quota.units());
        tell(self.slot_micros);
        tell(self.span_micros);
        tell(self.own.latest.id());
    }

    fn state(&self, mut numbers: &[u64]) -> Option<LogState> {
        let numbers = &mut numbers;
        let admissions = Admissions::read(numbers)?;
        let latest = Reach::read(numbers)?;
        let others = match numbers.is_empty() {
            true => None,
            false => Some((Reach::read(numbers)?, next_of(numbers)?)),
        };
        let retention = Retention { latest, others };
        let retention = match retention == *self.own {
            true => self.own.shared(),
            false => Arc::new(retention),
        };
        numbers.is_empty().then_some(LogState {
            admissions,
            retention,
        })
    }

    fn numbers(&self, state: &LogState, tell: &mut dyn FnMut(u64)) {
        state.admissions.write(tell);
        let Retention { latest, others } = &*state.retention;
        latest.write(tell);
        if let Some((reach, until)) = others {
            reach.write(tell);
            tell(*until);
        }
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<LogSnapshot> {
        let now = reply.now();
        let member = reply.next_member()?;
        let [units, more_after, all_after, cost_after] = match *member.numbers {
            [forgotten, total, first, _, last] if member.charged => {
                [total.checked_sub(forgotten)?, first, last, 0]
            }
            [units, more_after, all_after, cost_after] => {
                [units, more_after, all_after, cost_after]
            }
            _ => return None,
        };
        // Entries that still count end after now, and in their order.
        let this_slot = self.slot_of(now);
        let waits_for = |slot: u64| slot + self.span_micros > this_slot;
        let makes_sense = units == 0
            || (all_after >= more_after.max(cost_after)
                && all_after <= now.as_micros() + self.span_micros
                && waits_for(more_after)
                && (cost_after == 0 || waits_for(cost_after)));
        makes_sense.then_some(LogSnapshot {
            units,
            more_after,
            all_after,
            cost_after,
            now,
            cost: member.cost,
            admitted: member.admitted,
        })
    }
}

#[cfg(test)]
mod tests;
