//! The rule that token bucket, leaky bucket and GCRA share, in exact integers.
//!
//! A bucket owes a *debt* that starts at nothing, grows by what is charged, and is paid off continuously at the quota's
//! rate. A cost is admitted if the debt does not pass the capacity with it. (A token bucket holds the capacity less the
//! debt; a leaky bucket's level is the debt; GCRA's theoretical arrival time is when the debt will be paid.)
//!
//! The debt is counted in parts of a unit, and time in ticks, so that each tick pays a whole number of
//! parts: with *n* units per *P* microseconds and ticks of *T*, a unit is P/g parts and a tick pays
//! n·T/g, where g = gcd(n·T, P). Nothing is ever rounded. T is the smallest power of ten with which every
//! number stays below 2^53: almost always one microsecond.

use std::fmt;

use crate::{
    algorithm::{Algorithm, Numbers, Policy, PolicyId, Script, Scripted},
    clock::Timestamp,
    decision::{Decision, Owed, PolicyDecision, Stands},
    error::ConfigError,
    quota::Quota,
};

use super::scale::{Scale, Scaled, greatest_common_divisor};

/// The largest number of parts or ticks: what a Lua number holds exactly.
const LARGEST: u128 = 1 << 53;
/// The longest time from full debt to none.
const LONGEST_SPAN_MICROS: u128 = 1 << 52;
const COARSEST_TICK: u32 = 6;

#[derive(Debug, Clone)]
pub struct Meter {
    algorithm: &'static str,
    quota: Quota,
    policy: Policy,
    capacity_units: u64,
    capacity_parts: u64,
    parts_per_unit: u64,
    parts_per_tick: u64,
    tick_micros: u64,
    span_ticks: u64,
    scale: Scale,
}

impl Meter {
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
        if capacity_parts + parts_per_tick > LARGEST || span_micros > LONGEST_SPAN_MICROS {
            return None;
        }
        let exact = |number: u128| u64::try_from(number).ok();
        let window_micros = match quota.units() {
            0 => quota.period_micros(),
            units => exact((u128::from(capacity_units) * period).div_ceil(u128::from(units)))?,
        };
        let burst = Burst::of(capacity_units, quota);
        let policy = Policy::of_quota(algorithm, quota, burst, capacity_units, window_micros);
        Some(Self {
            algorithm,
            quota,
            policy,
            capacity_units,
            capacity_parts: exact(capacity_parts)?,
            parts_per_unit: exact(parts_per_unit)?,
            parts_per_tick: exact(parts_per_tick)?,
            tick_micros,
            span_ticks: exact(span_ticks)?,
            scale: Scale::new(exact(parts_per_unit)?, tick_exponent),
        })
    }

    pub(super) fn with_capacity(&self, units: u64) -> Result<Self, ConfigError> {
        let mut meter = Self::new(self.algorithm, self.quota, units)?;
        meter.policy = meter.policy.named_like(&self.policy);
        Ok(meter)
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

    #[inline]
    fn tick_of(&self, now: Timestamp) -> u64 {
        match self.tick_micros {
            1 => now.as_micros(),
            tick => now.as_micros() / tick,
        }
    }

    /// What is owed, and at which tick: now, or the state's own if that is later.
    #[inline]
    fn level(&self, state: &Scaled, now: Timestamp) -> Level {
        let tick = self.tick_of(now).max(state.ticks());
        let elapsed = tick - state.ticks();
        // Under an older, larger capacity more may be owed than is paid in the whole span.
        let paid = elapsed.saturating_mul(self.parts_per_tick);
        let debt = state.parts().saturating_sub(paid);
        Level { tick, debt }
    }

    /// The parts that a cost adds, if it fits into an empty bucket at all.
    #[inline]
    fn parts(&self, units: u64) -> Option<u64> {
        (units <= self.capacity_units).then(|| units * self.parts_per_unit)
    }

    /// The state, in the parts and ticks of these numbers.
    #[inline]
    fn in_own_scale(&self, state: &Scaled) -> Scaled {
        match state.scale() == self.scale {
            true => *state,
            false => state.rescaled(self.scale, self.parts_per_unit),
        }
    }

    /// Brings a state of other numbers into these, and one of long after this tick to it.
    #[cold]
    fn mend(&self, state: &mut Scaled, tick: u64) {
        *state = self.in_own_scale(state);
        if state.ticks() > tick + self.span_ticks {
            *state = Scaled::new(state.parts(), tick, self.scale);
        }
    }

    /// What is owed after a decision, of a bucket or of a queue.
    #[inline(always)]
    pub(super) fn owed(&self, snapshot: &MeterSnapshot, is_queue: bool) -> Owed {
        let Level { debt, tick } = snapshot.level;
        Owed {
            debt,
            tick,
            now_micros: snapshot.now.as_micros(),
            parts_per_unit: self.parts_per_unit,
            parts_per_tick: self.parts_per_tick,
            tick_micros: self.tick_micros as u32,
            cost: snapshot.cost,
            is_admitted: snapshot.admitted,
            is_queue,
        }
    }

    /// Takes the charge of this snapshot back if nothing was charged after it.
    pub(super) fn take_back(&self, state: &mut Scaled, admission: &MeterSnapshot, now: Timestamp) {
        let paid_at = |tick: u64, debt: u64| {
            u128::from(tick) * u128::from(self.parts_per_tick) + u128::from(debt)
        };
        let Level { tick, debt } = admission.level;
        // Other numbers of the same policy may have come in between.
        let own = self.in_own_scale(state);
        if paid_at(tick, debt) == paid_at(own.ticks(), own.parts()) {
            *state = own;
            self.pay(state, admission.cost, now);
        }
    }

    fn pay(&self, state: &mut Scaled, cost: u32, now: Timestamp) {
        let Level { tick, debt } = self.level(state, now);
        let paid = u64::from(cost).saturating_mul(self.parts_per_unit);
        *state = Scaled::new(debt.saturating_sub(paid), tick, self.scale);
    }
}

/// How a bucket stood right after a decision, in the meter's parts and ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterSnapshot {
    level: Level,
    now: Timestamp,
    cost: u32,
    admitted: bool,
}

impl MeterSnapshot {
    /// At which tick, and what was owed then.
    pub(super) fn level(&self) -> (u64, u64) {
        (self.level.tick, self.level.debt)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    tick: u64,
    debt: u64,
}

impl Algorithm for Meter {
    type State = Scaled;
    type Snapshot = MeterSnapshot;

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }

    #[inline]
    fn numbers(&self) -> Numbers {
        self.policy.numbers()
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Scaled {
        Scaled::new(0, self.tick_of(at), self.scale)
    }

    #[inline]
    fn settle(&self, state: &mut Scaled, now: Timestamp) {
        let tick = self.tick_of(now);
        if state.scale() != self.scale || state.ticks() > tick + self.span_ticks {
            self.mend(state, tick);
        }
    }

    #[inline]
    fn judge(&self, state: &Scaled, cost: u32, now: Timestamp) -> bool {
        let Some(parts) = self.parts(u64::from(cost)) else {
            return false;
        };
        cost == 0 || self.level(state, now).debt + parts <= self.capacity_parts
    }

    #[inline]
    fn charge(&self, state: &mut Scaled, cost: u32, now: Timestamp) {
        let Level { tick, debt } = self.level(state, now);
        let charged = u64::from(cost) * self.parts_per_unit;
        *state = Scaled::new(debt + charged, tick, self.scale);
    }

    fn refund(&self, state: &mut Scaled, cost: u32, now: Timestamp) {
        self.pay(state, cost, now);
    }

    #[inline]
    fn is_fresh(&self, state: &Scaled, now: Timestamp) -> bool {
        // A state in the numbers that the policy had before must be able to leave, too.
        let state = &self.in_own_scale(state);
        self.tick_of(now) >= state.ticks() && self.level(state, now).debt == 0
    }

    #[inline]
    fn snapshot(&self, state: &Scaled, cost: u32, admitted: bool, now: Timestamp) -> MeterSnapshot {
        MeterSnapshot {
            level: self.level(state, now),
            now,
            cost,
            admitted,
        }
    }

    /// The level is worked out once.
    #[inline(always)]
    fn step(&self, state: &mut Scaled, cost: u32, now: Timestamp) -> (bool, MeterSnapshot) {
        self.settle(state, now);
        let mut level = self.level(state, now);
        let parts = self.parts(u64::from(cost));
        let parts = parts.filter(|parts| cost == 0 || level.debt + parts <= self.capacity_parts);
        if let Some(parts) = parts
            && cost > 0
        {
            level.debt += parts;
            *state = Scaled::new(level.debt, level.tick, self.scale);
        }
        let admitted = parts.is_some();
        let snapshot = MeterSnapshot {
            level,
            now,
            cost,
            admitted,
        };
        (admitted, snapshot)
    }

    #[inline]
    fn describe(&self, snapshot: &MeterSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(self.told(snapshot).worked_out());
    }

    #[inline(always)]
    fn decision(&self, snapshot: &MeterSnapshot) -> Decision {
        Decision::of_one(self.told(snapshot))
    }
}

impl Scripted for Meter {
    fn script() -> Script {
        Script::new("meter", include_str!("meter.lua"))
            .parameters(&[
                "capacity_parts",
                "parts_per_unit",
                "parts_per_tick",
                "own_scale",
            ])
            .state(&["debt", "at"])
            .aside(&["scale"])
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.capacity_parts);
        tell(self.parts_per_unit);
        tell(self.parts_per_tick);
        tell(self.scale.bits().into());
    }

    fn state(&self, numbers: &[u64]) -> Option<Scaled> {
        match *numbers {
            [debt, at] => Some(Scaled::new(debt, at, self.scale)),
            _ => None,
        }
    }
}

impl Meter {
    #[inline]
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline(always)]
    fn told(&self, snapshot: &MeterSnapshot) -> PolicyDecision {
        PolicyDecision::of(
            &self.policy,
            Stands::ByWhatIsOwed(self.owed(snapshot, false)),
        )
    }
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

#[cfg(test)]
mod tests;
