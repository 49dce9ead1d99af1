//! The rule that token bucket, leaky bucket and GCRA share, in exact integers.
//!
//! A bucket has a *debt*: it starts at zero, grows by each charged cost, and is paid off
//! continuously at the quota's rate. A cost is admitted if the debt with it is no more than the
//! capacity. (A token bucket holds the capacity less the debt; a leaky bucket's level is the debt;
//! GCRA's theoretical arrival time is when the debt will be paid.)
//!
//! The debt is counted in parts of a unit, and time in ticks, so that each tick pays a whole number
//! of parts: with *n* units per *P* microseconds and ticks of *T*, a unit is P/g parts and a tick
//! pays n·T/g, where g = gcd(n·T, P). Nothing is ever rounded. T is the smallest power of ten with
//! which every number stays below 2^53: almost always one microsecond.

use std::fmt;

use crate::{
    algorithm::{Additive, Algorithm, ConfigId, Policy, PolicyId, Script, ScriptReply, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
    lazy_arc::LazyArc,
    quota::Quota,
};

use self::status::Owed;
use super::plans::{CountByPlan, FurtherPlans, Plans, Rule, next_of};

mod status;

#[derive(Debug, Clone)]
pub struct DebtBucket {
    algorithm: &'static str,
    quota: Quota,
    policy: Policy,
    capacity_units: u64,
    rate: Rate,
    own: LazyArc<Plans<Rate>>,
}

/// How much may be owed, and how it is paid off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    capacity_parts: u64,
    parts_per_unit: u64,
    parts_per_tick: u64,
    tick_micros: u64,
    /// From full debt to none.
    span_ticks: u64,
}

/// What is owed, in parts of a unit, and the tick that it was last counted at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debt {
    parts: u64,
    tick: u64,
}

/// The state of a bucket.
pub(super) type Owing = CountByPlan<Rate>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    tick: u64,
    debt: u64,
}

impl DebtBucket {
    /// Whether the debt stays within the capacity with this cost.
    #[inline]
    fn has_room(&self, level: Level, cost: u32) -> bool {
        cost == 0 || self.fits_beside(level, cost.into())
    }

    /// Whether so many units more stay within the capacity.
    #[inline]
    fn fits_beside(&self, level: Level, units: u64) -> bool {
        // No product passes 2^53: units that an empty bucket cannot take are not multiplied.
        units <= self.capacity_units
            && level.debt + units * self.rate.parts_per_unit <= self.rate.capacity_parts
    }

    /// What a cost adds to the debt.
    #[inline]
    fn parts(&self, cost: u32) -> u64 {
        u64::from(cost) * self.rate.parts_per_unit
    }

    #[inline(always)]
    fn level(&self, state: &Owing, now: Timestamp) -> Level {
        self.rate.level(&self.seen(state), now)
    }

    /// What is owed by these numbers, whoever was admitted.
    #[inline(always)]
    fn seen(&self, state: &Owing) -> Debt {
        match state.is_of_one(&self.own) {
            true => state.count,
            false => state.seen_by(&self.own, self.capacity_units),
        }
    }
}

impl Rate {
    /// What is owed, and at which tick: now, or the count's own if that is later.
    #[inline]
    fn level(&self, count: &Debt, now: Timestamp) -> Level {
        let tick = self.tick_of(now).max(count.tick);
        let elapsed = tick - count.tick;
        // Under an older, larger capacity more may be owed than is paid in the whole span.
        let paid = elapsed.saturating_mul(self.parts_per_tick);
        let debt = count.parts.saturating_sub(paid);
        Level { tick, debt }
    }

    #[inline]
    fn tick_of(&self, now: Timestamp) -> u64 {
        match self.tick_micros {
            1 => now.as_micros(),
            tick => now.as_micros() / tick,
        }
    }
}

impl Algorithm for DebtBucket {
    type State = Owing;
    type Snapshot = DebtBucketSnapshot;

    #[inline]
    fn judge(&self, state: &Owing, cost: u32, now: Timestamp) -> bool {
        self.has_room(self.level(state, now), cost)
    }

    #[inline]
    fn charge(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        self.debit(state, cost.into(), now);
    }

    #[inline]
    fn debit(&self, state: &mut Owing, units: u64, now: Timestamp) {
        let mut level = self.level(state, now);
        let charged = units.saturating_mul(self.rate.parts_per_unit);
        level.debt = level.debt.saturating_add(charged).min(MAX_PARTS);
        self.admitted(state, level, units, now);
    }

    fn refund(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        state.change(&self.own, |rate, count| rate.with_refund(&count, cost, now));
    }

    #[inline]
    fn mend(&self, state: &mut Owing, now: Timestamp) {
        if !state.is_of_one(&self.own) {
            return state.mend(&self.own, now);
        }
        let tick = self.rate.tick_of(now);
        if state.count.tick > tick + self.rate.span_ticks {
            state.count.tick = tick;
        }
    }

    #[inline]
    fn is_fresh(&self, state: &Owing, now: Timestamp) -> bool {
        let Debt { tick, .. } = self.seen(state);
        self.rate.tick_of(now) >= tick
            && self.level(state, now).debt == 0
            && (state.is_of_one(&self.own) || state.is_over(now))
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Owing {
        let (parts, tick) = (0, self.rate.tick_of(at));
        CountByPlan::new(Debt { parts, tick }, &self.own)
    }

    /// The level is worked out once.
    #[inline(always)]
    fn step(&self, state: &mut Owing, cost: u32, now: Timestamp) -> (bool, DebtBucketSnapshot) {
        self.mend(state, now);
        let mut level = self.level(state, now);
        let admitted = self.has_room(level, cost);
        if admitted && cost > 0 {
            level.debt += self.parts(cost);
            self.admitted(state, level, cost.into(), now);
        }
        let snapshot = DebtBucketSnapshot {
            level,
            now,
            cost,
            admitted,
        };
        (admitted, snapshot)
    }

    #[inline]
    fn snapshot(
        &self,
        state: &Owing,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> DebtBucketSnapshot {
        DebtBucketSnapshot {
            level: self.level(state, now),
            now,
            cost,
            admitted,
        }
    }

    #[inline]
    fn describe(&self, snapshot: &DebtBucketSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(self.told(snapshot).resolved());
    }

    #[inline(always)]
    fn decision(&self, snapshot: &DebtBucketSnapshot) -> Decision {
        Decision::of_one(self.told(snapshot))
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

/// How a bucket stood right after a decision, in parts and ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebtBucketSnapshot {
    level: Level,
    now: Timestamp,
    cost: u32,
    admitted: bool,
}

impl DebtBucketSnapshot {
    /// At which tick, and what was owed then.
    pub(super) fn level(&self) -> (u64, u64) {
        (self.level.tick, self.level.debt)
    }
}

impl DebtBucket {
    #[inline(always)]
    fn admitted(&self, state: &mut Owing, level: Level, units: u64, now: Timestamp) {
        let Level { tick, debt: parts } = level;
        let count = Debt { parts, tick };
        match state.is_of_one(&self.own) {
            true => state.count = count,
            false => state.admitted(&self.own, count, units, now),
        }
    }

    #[inline(always)]
    fn told(&self, snapshot: &DebtBucketSnapshot) -> PolicyDecision {
        PolicyDecision::lazy(&self.policy, self.owed(snapshot, false).lazy())
    }

    /// What is owed after a decision, of a bucket or of a queue.
    #[inline(always)]
    pub(super) fn owed(&self, snapshot: &DebtBucketSnapshot, is_queue: bool) -> Owed {
        let Level { debt, tick } = snapshot.level;
        Owed {
            debt,
            tick,
            now_micros: snapshot.now.as_micros(),
            parts_per_unit: self.rate.parts_per_unit,
            parts_per_tick: self.rate.parts_per_tick,
            tick_micros: self.rate.tick_micros as u32,
            cost: snapshot.cost,
            is_admitted: snapshot.admitted,
            is_queue,
        }
    }

    /// Takes the charge of this snapshot back if nothing was charged after it. If others had
    /// counted before it, their plan stays charged.
    pub(super) fn take_back(
        &self,
        state: &mut Owing,
        admission: &DebtBucketSnapshot,
        now: Timestamp,
    ) {
        let paid_at = |tick: u64, debt: u64| {
            u128::from(tick) * u128::from(self.rate.parts_per_tick) + u128::from(debt)
        };
        let Level { tick, debt } = admission.level;
        if !state.was_last_admitted_under(&self.own) {
            return;
        }
        if paid_at(tick, debt) == paid_at(state.count.tick, state.count.parts) {
            state.count = self.rate.with_refund(&state.count, admission.cost, now);
        }
    }
}

/// The largest number of parts or ticks: what a Lua number holds exactly.
const LARGEST: u128 = 1 << 53;
const MAX_PARTS: u64 = (1 << 53) - 1;
/// The longest time from full debt to none.
const MAX_SPAN_MICROS: u128 = 1 << 52;
const COARSEST_TICK: u32 = 6;

impl DebtBucket {
    pub(super) fn new(
        algorithm: &'static str,
        quota: Quota,
        capacity_units: u64,
    ) -> Result<Self, ConfigError> {
        // Without any units nothing is ever paid back, so nothing may be owed.
        let capacity_units = if quota.units() == 0 {
            0
        } else {
            capacity_units
        };
        let too_large = ConfigError::QuotaTooLarge {
            units: capacity_units.max(quota.units()),
            period: quota.period(),
        };
        (0..=COARSEST_TICK)
            .find_map(|tick| Self::with_tick(algorithm, quota, capacity_units, tick))
            .ok_or(too_large)
    }

    fn with_tick(
        algorithm: &'static str,
        quota: Quota,
        capacity_units: u64,
        tick_exponent: u32,
    ) -> Option<Self> {
        let tick_micros = 10_u64.pow(tick_exponent);
        let period = u128::from(quota.period_micros());
        let paid = u128::from(quota.units()) * u128::from(tick_micros);
        let divisor = greatest_common_divisor(paid, period);
        let (parts_per_tick, parts_per_unit) = (paid / divisor, period / divisor);
        let capacity_parts = u128::from(capacity_units) * parts_per_unit;
        let span_ticks = capacity_parts
            .checked_div(parts_per_tick)
            .map_or(0, |floor| {
                floor + u128::from(!capacity_parts.is_multiple_of(parts_per_tick))
            });
        let span_micros = span_ticks * u128::from(tick_micros);
        if capacity_parts + parts_per_tick > LARGEST || span_micros > MAX_SPAN_MICROS {
            return None;
        }
        let exact = |number: u128| u64::try_from(number).ok();
        let window_micros = match quota.units() {
            0 => quota.period_micros(),
            units => exact((u128::from(capacity_units) * period).div_ceil(u128::from(units)))?,
        };
        let burst = Burst::of(capacity_units, quota);
        let policy = Policy::of_quota(algorithm, quota, burst, capacity_units, window_micros);
        let rate = Rate {
            capacity_parts: exact(capacity_parts)?,
            parts_per_unit: exact(parts_per_unit)?,
            parts_per_tick: exact(parts_per_tick)?,
            tick_micros,
            span_ticks: exact(span_ticks)?,
        };
        Some(Self {
            algorithm,
            quota,
            policy,
            capacity_units,
            rate,
            own: Plans::of_one(rate),
        })
    }

    pub(super) fn with_capacity(&self, units: u64) -> Result<Self, ConfigError> {
        let mut bucket = Self::new(self.algorithm, self.quota, units)?;
        bucket.policy = bucket.policy.named_like(&self.policy);
        Ok(bucket)
    }

    /// The same rule and numbers, as another algorithm's.
    pub(super) fn known_as(&self, algorithm: &'static str) -> Self {
        let (policy, burst) = (&self.policy, Burst::of(self.capacity_units, self.quota));
        let (limit, window_micros) = (policy.limit(), policy.window_micros());
        Self {
            algorithm,
            policy: Policy::of_quota(algorithm, self.quota, burst, limit, window_micros)
                .named_like(policy),
            ..self.clone()
        }
    }

    pub(super) fn named(mut self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.policy = self.policy.named(name)?;
        Ok(self)
    }

    /// The same, with its policy changed.
    pub(super) fn with_policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    #[inline]
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// Their greatest common divisor.
fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A burst that is not the quota's own, as it stands in a policy's name.
struct Burst(Option<u64>);

impl Burst {
    fn of(capacity_units: u64, quota: Quota) -> Self {
        Self((capacity_units != quota.units()).then_some(capacity_units))
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |units| write!(f, "-b{units}"))
    }
}

impl Rate {
    fn with_refund(&self, count: &Debt, cost: u32, now: Timestamp) -> Debt {
        let Level { tick, debt } = self.level(count, now);
        let paid = u64::from(cost).saturating_mul(self.parts_per_unit);
        let parts = debt.saturating_sub(paid);
        Debt { parts, tick }
    }

    /// Tells these numbers from others, and how long a tick is: what is above 50 bits.
    fn id(&self) -> u64 {
        let numbers = [
            self.capacity_parts,
            self.parts_per_unit,
            self.parts_per_tick,
        ];
        let mixed = numbers
            .iter()
            .fold(0x9E37_79B9_7F4A_7C15_u64, |mixed, number| {
                let mixed = (mixed ^ number).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
                mixed ^ (mixed >> 29)
            });
        // 0 is for a state that others have counted too.
        let mixed = (mixed >> 14).max(1);
        u64::from(self.tick_micros.ilog10()) << 50 | mixed
    }
}

impl Rule for Rate {
    type Count = Debt;

    fn write(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.capacity_parts);
        tell(self.parts_per_unit);
        tell(self.parts_per_tick);
        tell(self.tick_micros);
    }

    fn read(numbers: &mut &[u64]) -> Option<Self> {
        let (capacity_parts, parts_per_unit) = (next_of(numbers)?, next_of(numbers)?);
        let (parts_per_tick, tick_micros) = (next_of(numbers)?, next_of(numbers)?);
        let is_a_tick = (0..=COARSEST_TICK).any(|exponent| tick_micros == 10_u64.pow(exponent));
        let span_ticks = match parts_per_tick {
            0 => 0,
            paid => capacity_parts.div_ceil(paid),
        };
        (is_a_tick && parts_per_unit > 0).then_some(Self {
            capacity_parts,
            parts_per_unit,
            parts_per_tick,
            tick_micros,
            span_ticks,
        })
    }

    fn write_count(count: Debt, tell: &mut dyn FnMut(u64)) {
        tell(count.parts);
        tell(count.tick);
    }

    fn read_count(numbers: &mut &[u64]) -> Option<Debt> {
        let (parts, tick) = (next_of(numbers)?, next_of(numbers)?);
        Some(Debt { parts, tick })
    }

    fn can_count(&self, count: Debt) -> bool {
        count.parts <= MAX_PARTS && count.tick <= MAX_PARTS / self.tick_micros
    }

    /// As many units, in these parts, paid off at this rate since then.
    fn begun_from(&self, others: &Self, count: Debt) -> Debt {
        let divisor =
            greatest_common_divisor(self.parts_per_unit.into(), others.parts_per_unit.into());
        let [grows, shrinks] = [self, others].map(|rate| u128::from(rate.parts_per_unit));
        // As a Lua number counts, so that every store says the same.
        let parts = count.parts as f64 * (grows / divisor) as f64;
        let parts = (parts / (shrinks / divisor) as f64).ceil();
        Debt {
            parts: (parts as u64).min(MAX_PARTS),
            tick: (count.tick * others.tick_micros / self.tick_micros).min(MAX_PARTS),
        }
    }

    /// As many parts, owed at the latest stamp, or paid off when they expire.
    fn begun_from_further(&self, further: &FurtherPlans, _units: u64) -> Debt {
        let parts = further.units.saturating_mul(self.parts_per_unit);
        let parts = parts.min(self.capacity_parts);
        let ticks = parts.checked_div(self.parts_per_tick).unwrap_or(0);
        let [stamp, until] = [further.stamp_micros, further.expires_at_micros]
            .map(|micros| micros.div_ceil(self.tick_micros));
        Debt {
            parts,
            tick: stamp.min(until.saturating_sub(ticks)),
        }
    }

    fn units(&self, count: Debt) -> u64 {
        count.parts.div_ceil(self.parts_per_unit)
    }

    /// What others admit fills the bucket at most.
    fn with_units_of_others(&self, count: Debt, units: u64, now: Timestamp) -> Debt {
        let Level { tick, debt } = self.level(&count, now);
        let charged = units.saturating_mul(self.parts_per_unit);
        let brim = self.capacity_parts.max(debt);
        let parts = debt.saturating_add(charged).min(brim);
        Debt { parts, tick }
    }

    fn matters_until(&self, count: Debt) -> u64 {
        let ticks = match self.parts_per_tick {
            0 => 0,
            paid => count.parts.div_ceil(paid),
        };
        let expires_at = (count.tick + ticks).saturating_mul(self.tick_micros);
        // A debit may owe more than can ever be paid.
        expires_at.min(MAX_PARTS)
    }

    fn stamp(&self, count: Debt) -> u64 {
        count.tick * self.tick_micros
    }

    fn is_ahead(&self, stamp: u64, now: Timestamp) -> bool {
        stamp / self.tick_micros > self.tick_of(now) + self.span_ticks
    }

    fn moved_to(&self, count: Debt, now: Timestamp) -> Debt {
        let tick = self.tick_of(now);
        Debt { tick, ..count }
    }
}

impl Additive for DebtBucket {
    #[inline]
    fn fits(&self, state: &Owing, units: u64, now: Timestamp) -> bool {
        self.fits_beside(self.level(state, now), units)
    }

    fn snapshot_beside(
        &self,
        state: &Owing,
        held: u64,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> DebtBucketSnapshot {
        let mut snapshot = self.snapshot(state, cost, admitted, now);
        let parts = held.saturating_mul(self.rate.parts_per_unit);
        snapshot.level.debt = snapshot.level.debt.saturating_add(parts).min(MAX_PARTS);
        snapshot
    }
}

impl Scripted for DebtBucket {
    fn script() -> Script {
        Script::new("bucket", include_str!("debt_bucket.lua"))
            .parameters(&[
                "capacity_parts",
                "parts_per_unit",
                "parts_per_tick",
                "own_id",
            ])
            .state(&["debt", "debt_tick"])
            .private_state(&["id"])
            .tail([4, 16])
            .replies(&["debt_now", "tick_now"])
            .requires(super::script::FOR_PLANS)
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.rate.capacity_parts);
        tell(self.rate.parts_per_unit);
        tell(self.rate.parts_per_tick);
        tell(self.rate.id());
    }

    fn state(&self, numbers: &[u64]) -> Option<Owing> {
        CountByPlan::read(&self.own, numbers)
    }

    fn numbers(&self, state: &Owing, tell: &mut dyn FnMut(u64)) {
        state.write(tell);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<DebtBucketSnapshot> {
        let (now, member) = (reply.now(), reply.next_member()?);
        let state = self.state(member.numbers)?;
        let Debt { parts, tick } = state.count;
        let Rate {
            capacity_parts,
            span_ticks,
            tick_micros,
            ..
        } = self.rate;
        let charged = u64::from(member.cost).checked_mul(self.rate.parts_per_unit);
        let makes_sense = match member.charged {
            // What was charged is part of what is owed, and that is no more than may be.
            true => {
                (charged?..=capacity_parts).contains(&parts)
                    && tick <= self.rate.tick_of(now) + span_ticks
            }
            false => parts <= MAX_PARTS && tick <= MAX_PARTS / tick_micros,
        };
        makes_sense.then(|| self.snapshot(&state, member.cost, member.admitted, now))
    }
}

#[cfg(test)]
mod tests;
