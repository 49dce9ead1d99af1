//! The rule that token bucket, leaky bucket and GCRA share, in exact integers.
//!
//! A bucket has a *debt*: it starts at zero, grows by each charged cost, and is paid off
//! continuously at the quota's rate. A cost is admitted if the debt with it is no more than the
//! capacity. (A token bucket holds the capacity less the debt; a leaky bucket's level is the debt;
//! GCRA's theoretical arrival time is when the debt will be paid.)
//!
//! The debt is counted in parts of a unit, and time in ticks, so that each tick pays a whole number
//! of parts: with *n* units per *P* microseconds and ticks of *T*, a unit is P/g parts and a tick
//! pays n·T/g, where g = gcd(n·T, P). So nothing is rounded, unless the numbers change. T is the
//! smallest power of ten with which a full debt stays below 2^53: almost always one microsecond.
//!
//! Requests can wait: [`LeakyBucketQueue`](super::LeakyBucketQueue) and
//! [`WaitAtMost`](super::WaitAtMost). An admitted request leaves when no more than the burst is
//! owed with it: so the burst goes at once, and the rest one by one at the rate. One that costs
//! more than the burst leaves when nothing is owed before it. Nobody overtakes: a request that is
//! charged later leaves later, or at the same instant.

use std::time::Duration;

use crate::{
    algorithm::{Additive, Algorithm, JudgedCost, Policy, Script, ScriptReply, Scripted, Status},
    clock::Timestamp,
    decision::LazyStatus,
    error::ConfigError,
    policy::Span,
    quota::Quota,
};

/// How much may be owed, and how it is paid off: the names are those of `debt_bucket.lua`.
#[derive(Debug, Clone)]
pub struct DebtBucket {
    made_of: MadeOf,
    pub(super) policy: Policy,
    /// The largest debt, in parts of a unit.
    capacity: u64,
    /// The parts of a unit.
    unit: u64,
    /// The parts that a tick pays off.
    rate: u64,
    tick_micros: u64,
    /// If requests wait, how much may be owed with one that goes at once, and the fraction of a
    /// unit that the capacity has. Otherwise 0.
    burst_and_rest: u64,
}

/// The state of a bucket: how long it needs to recover, as a debt, the tick as of which it is owed,
/// and the rate that pays it off.
///
/// Under other numbers of the same policy the same time is owed, up to 2^53 of their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owing {
    debt: u64,
    tick: u64,
    speed: u64,
}

impl Owing {
    /// What is left at this tick, by the numbers that it was counted by. An earlier tick than the
    /// state's own counts as that.
    #[inline]
    fn debt_at(&self, tick: u64) -> u64 {
        // Not capped at a span: by an older, larger capacity more may be owed than a span pays.
        let paid = tick.saturating_sub(self.tick).saturating_mul(self.speed);
        self.debt.saturating_sub(paid)
    }
}

impl DebtBucket {
    /// What is owed now by this limit's numbers.
    #[inline]
    fn owing_at(&self, state: &Owing, now: Timestamp) -> Owing {
        let tick = self.tick_of(now).max(state.tick);
        Owing {
            debt: self.counted(state.debt_at(tick), state.speed),
            tick,
            speed: self.rate,
        }
    }

    /// A debt that was counted at this speed, by this limit's numbers: it may be more than a state
    /// can keep.
    #[inline]
    fn counted(&self, debt: u64, speed: u64) -> u64 {
        match speed == self.rate || debt == 0 {
            true => debt,
            false => converted(debt, speed, self.rate),
        }
    }

    #[inline]
    fn tick_of(&self, now: Timestamp) -> u64 {
        match self.tick_micros {
            1 => now.as_micros(),
            tick => now.as_micros() / tick,
        }
    }

    /// Whether the debt stays within the capacity with this cost.
    #[inline]
    fn has_room(&self, owing: &Owing, cost: u32) -> bool {
        let charged = u64::from(cost).saturating_mul(self.unit);
        cost == 0 || owing.debt.saturating_add(charged) <= self.capacity
    }

    /// The status after a decision about a cost that left this debt. It has room for seven numbers:
    /// two that are below 2^32 share one, and the capacity is worked out from the limit.
    #[inline]
    fn lazily(&self, (debt, tick): (u64, u64), cost: JudgedCost, now: Timestamp) -> LazyStatus {
        let numbers = [
            debt,
            tick,
            now.as_micros(),
            self.unit,
            self.rate,
            self.tick_micros << 32 | u64::from(cost.0),
            self.burst_and_rest,
        ];
        LazyStatus::new(cost, numbers, Self::resolve)
    }

    fn resolve(numbers: &[u64; 7], limit: u64, refused_cost: u64) -> Status {
        let [debt, tick, now, unit, rate, tick_and_cost, burst_and_rest] = *numbers;
        let (tick_micros, cost) = (tick_and_cost >> 32, tick_and_cost & u64::from(u32::MAX));
        let rest = burst_and_rest % unit;
        let (burst, capacity) = (burst_and_rest - rest, limit * unit + rest);
        let is_admitted = refused_cost == 0;
        let micros_to_pay = |parts: u64| {
            let ticks = match rate {
                _ if parts == 0 => return Some(0),
                0 => return None,
                1 => parts,
                rate => parts.div_ceil(rate),
            };
            // A debt that others left may be more than can ever be paid at this rate.
            let paid_at = (tick + ticks).saturating_mul(tick_micros);
            Some(paid_at.saturating_sub(now))
        };
        let remaining = capacity.saturating_sub(debt) / unit;
        let status = Status::of(limit, remaining, cost, is_admitted, |units| {
            let parts = (units <= limit).then(|| units * unit)?;
            micros_to_pay((debt + parts).saturating_sub(capacity))
        });
        // It leaves when no more than the burst is owed with it, or nothing before it.
        let at_once = cost.saturating_mul(unit).max(burst);
        let waits_for = match burst_and_rest > 0 && is_admitted && cost > 0 {
            true => debt.saturating_sub(at_once),
            false => 0,
        };
        Status {
            delay_micros: micros_to_pay(waits_for).unwrap_or(0),
            // Not the wait for all units, which may be there while less than a unit is owed.
            reset_after_micros: micros_to_pay(debt).unwrap_or(0),
            ..status
        }
    }

    /// The debt as it is shown, and as of which tick: if it is more than these numbers can count,
    /// as much as they can, from a later tick on, so that the wait for it is exact.
    #[inline]
    fn shown(&self, owing: Owing, state: Owing) -> (u64, u64) {
        match owing.debt {
            0..=MAX_PARTS => (owing.debt, owing.tick),
            _ => self.shown_from_later_on(owing, state),
        }
    }

    #[cold]
    fn shown_from_later_on(&self, owing: Owing, state: Owing) -> (u64, u64) {
        let (from, to) = (state.speed, owing.speed);
        let debt = state.debt_at(owing.tick);
        let ticks = (debt / from).min(MAX_PARTS / to);
        let shown = ticks * to + converted(debt % from, from, to);
        (shown, owing.tick + debt / from - ticks)
    }

    fn take_out(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        *state = self.owing_at(state, now);
        let left = state.debt.saturating_sub(self.amount(cost.into()));
        state.debt = left.min(MAX_PARTS);
    }

    /// How many parts are paid off, from tick 0 on, until this debt is.
    fn paid_at(&self, parts: u64, tick: u64) -> u128 {
        u128::from(tick) * u128::from(self.rate) + u128::from(parts)
    }

    /// Of an admission that may wait for its turn, the tick and what was owed then.
    fn turn(&self, admission: &LazyStatus) -> Option<(u64, u64)> {
        match *admission {
            LazyStatus::Lazy { numbers, .. } if self.waits() => Some((numbers[1], numbers[0])),
            _ => None,
        }
    }

    fn waits(&self) -> bool {
        self.made_of.at_once_units.is_some()
    }
}

impl Algorithm for DebtBucket {
    type State = Owing;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn judge(&self, state: &Owing, cost: u32, now: Timestamp) -> bool {
        self.has_room(&self.owing_at(state, now), cost)
    }

    fn debit(&self, state: &mut Owing, units: u64, now: Timestamp) {
        self.debit_amount(state, self.amount(units), now);
    }

    /// Changes nothing where requests wait: those behind keep the turns that they were promised.
    fn refund(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        // A cost of 0 leaves the debt as it was counted.
        if cost > 0 && !self.waits() {
            self.take_out(state, cost, now);
        }
    }

    #[inline]
    fn is_fresh(&self, state: &Owing, now: Timestamp) -> bool {
        let tick = self.tick_of(now);
        tick >= state.tick && state.debt_at(tick) == 0
    }

    fn fresh(&self, at: Timestamp) -> Owing {
        Owing {
            debt: 0,
            tick: self.tick_of(at),
            speed: self.rate,
        }
    }

    /// Judges and charges in one: the debt is worked out once.
    // Inlined always: a check of a token bucket takes 223 instructions so, and 263 otherwise (bench
    // `instructions_of_each`). The state is written number by number: as one value it is written in
    // halves and read in whole, for which the processor waits (a tenth of what a layer adds, bench
    // `middleware`).
    #[inline(always)]
    fn step(&self, state: &mut Owing, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let before = *state;
        let mut owing = self.owing_at(&before, now);
        let admitted = self.has_room(&owing, cost);
        if admitted && cost > 0 {
            owing.debt += u64::from(cost) * self.unit;
            (state.debt, state.tick, state.speed) = (owing.debt, owing.tick, owing.speed);
        }
        let shown = self.shown(owing, before);
        (admitted, self.lazily(shown, (cost, admitted), now))
    }

    fn status(&self, state: &Owing, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.status_beside(state, 0, (cost, admitted), now)
    }

    fn lazy_status(&self, state: &Owing, cost: JudgedCost, now: Timestamp) -> LazyStatus {
        let shown = self.shown(self.owing_at(state, now), *state);
        self.lazily(shown, cost, now)
    }

    /// Takes a turn back if it is the last: if nothing was charged after it. One in the middle
    /// stays taken: those behind it were promised their instants, and a newcomer in it would
    /// overtake them.
    fn withdraw(&self, state: &mut Owing, admission: &LazyStatus, cost: u32, now: Timestamp) {
        if let Some((tick, debt)) = self.turn(admission)
            && state.speed == self.rate
            && self.paid_at(state.debt, state.tick) == self.paid_at(debt, tick)
        {
            self.take_out(state, cost, now);
        }
    }
}

/// The largest debt: what a Lua number holds exactly, with a tick's parts more.
const MAX_PARTS: u64 = (1 << 53) - 1;
/// The longest time from full debt to none.
const MAX_SPAN_MICROS: u128 = 1 << 52;

/// The ticks in which time can be counted, in microseconds: the finest first.
pub(super) fn ticks() -> impl Iterator<Item = u64> {
    (0..=6).map(|exponent| 10_u64.pow(exponent))
}

/// What a bucket is made from.
#[derive(Debug, Clone, Copy)]
struct MadeOf {
    algorithm: &'static str,
    quota: Quota,
    burst_units: u64,
    /// Room for what is paid off while a request waits for so long.
    wait: Option<Duration>,
    /// Where requests wait, how many units go at once.
    at_once_units: Option<u64>,
}

impl DebtBucket {
    pub(super) fn new(algorithm: &'static str, quota: Quota) -> Result<Self, ConfigError> {
        Self::of(MadeOf {
            algorithm,
            quota,
            burst_units: quota.units(),
            wait: None,
            at_once_units: None,
        })
    }

    /// The same, under the same name, but for what the closure changes.
    fn with(&self, change: impl FnOnce(&mut MadeOf)) -> Result<Self, ConfigError> {
        let mut made_of = self.made_of;
        change(&mut made_of);
        let bucket = Self::of(made_of)?;
        let policy = bucket.policy.clone().like(&self.policy);
        Ok(Self { policy, ..bucket })
    }

    pub(super) fn with_burst(&self, units: u64) -> Result<Self, ConfigError> {
        self.with(|made_of| made_of.burst_units = units)
    }

    /// Lets the burst through at once, and delays what comes behind it, but no longer than this. A
    /// burst of 0 admits nothing, however long anyone would wait.
    pub(super) fn with_wait(&self, wait: Duration) -> Result<Self, ConfigError> {
        self.with(|made_of| {
            made_of.wait = Some(wait);
            made_of.at_once_units = Some(made_of.burst_units);
        })
    }

    /// Lets one unit through at once, and delays what comes behind it.
    pub(super) fn queue(&self, algorithm: &'static str) -> Self {
        let queue = self.with(|made_of| {
            made_of.algorithm = algorithm;
            made_of.at_once_units = Some(1);
        });
        queue.expect("it has the same room")
    }

    /// In the finest ticks with which these numbers can be counted exactly.
    fn of(made_of: MadeOf) -> Result<Self, ConfigError> {
        let bucket = ticks().find_map(|tick| Self::with_tick(made_of, tick));
        bucket.ok_or_else(|| {
            let (units, period) = (made_of.quota.units(), made_of.quota.period());
            match made_of.wait {
                Some(wait) => ConfigError::WaitTooLong { wait, period },
                None => ConfigError::QuotaTooLarge {
                    units: units.max(made_of.burst_units),
                    period,
                },
            }
        })
    }

    /// None if these numbers cannot be counted exactly in such ticks.
    fn with_tick(made_of: MadeOf, tick_micros: u64) -> Option<Self> {
        let exact = |number: u128| u64::try_from(number).ok();
        let quota = made_of.quota;
        let (units, period) = (quota.units(), quota.period_micros());
        let [n, p, tick] = [units, period, tick_micros].map(u128::from);
        let divisor = greatest_common_divisor(n * tick, p);
        let (rate, unit) = (n * tick / divisor, p / divisor);
        // Without any units nothing is ever paid back, so nothing may be owed.
        let burst = match n {
            0 => 0,
            _ => made_of.burst_units.into(),
        };
        let wait_micros = match made_of.wait {
            Some(wait) if burst > 0 => wait.as_micros(),
            _ => 0,
        };
        // What the wait has room for is not rounded down to whole units.
        let paid_meanwhile = (wait_micros / tick).checked_mul(rate)?;
        let capacity = burst * unit + paid_meanwhile;
        // (A rate of 0 has no capacity.)
        let span_micros = capacity.div_ceil(rate.max(1)) * tick;
        if capacity + rate > u128::from(MAX_PARTS) + 1 || span_micros > MAX_SPAN_MICROS {
            return None;
        }
        let window_micros = match n {
            0 => p,
            n => (burst * p).div_ceil(n) + wait_micros,
        };
        let mut more = String::new();
        if burst != n {
            more += &format!("-b{burst}");
        }
        if let Some(wait) = made_of.wait {
            more += &format!("-w{}", Span(exact(wait.as_micros())?));
        }
        let never = if n == 0 { "-never-paid" } else { "" };
        let (limit, window_micros) = (exact(capacity / unit)?, exact(window_micros)?);
        let policy = Policy::of_quota(made_of.algorithm, quota, more, limit, window_micros);
        let burst_and_rest = made_of
            .at_once_units
            .map_or(0, |units| u128::from(units) * unit + capacity % unit);
        Some(Self {
            made_of,
            policy: policy.of_shape(format_args!("bucket-{}{never}", Span(tick_micros))),
            capacity: exact(capacity)?,
            unit: exact(unit)?,
            rate: exact(rate)?,
            tick_micros,
            burst_and_rest: exact(burst_and_rest)?,
        })
    }
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Additive for DebtBucket {
    fn fits(&self, state: &Owing, parts: u64, now: Timestamp) -> bool {
        let owing = self.owing_at(state, now);
        owing.debt.saturating_add(parts) <= self.capacity
    }

    fn amount(&self, units: u64) -> u64 {
        units.saturating_mul(self.unit)
    }

    fn converted(&self, state: &Owing, parts: u64) -> u64 {
        self.counted(parts, state.speed).min(MAX_PARTS)
    }

    fn debit_amount(&self, state: &mut Owing, parts: u64, now: Timestamp) {
        *state = self.owing_at(state, now);
        // What is never paid back is not owed.
        let more = if self.rate > 0 { parts } else { 0 };
        state.debt = state.debt.saturating_add(more).min(MAX_PARTS);
    }

    fn status_beside(&self, state: &Owing, held: u64, cost: JudgedCost, now: Timestamp) -> Status {
        let (debt, tick) = self.shown(self.owing_at(state, now), *state);
        let status = self.lazily((debt.saturating_add(held), tick), cost, now);
        status.resolve(self.policy.limit())
    }
}

/// A debt that was counted at another rate: it takes as long as before to be paid off, rounded up.
/// In doubles, as Lua counts, so that every store says the same.
#[cold]
fn converted(parts: u64, from: u64, to: u64) -> u64 {
    let [parts, from, to] = [parts, from, to].map(|number| number as f64);
    let ticks = (parts / from).floor();
    let rest = ((parts - ticks * from) * to / from).ceil();
    (ticks * to + rest) as u64
}

impl Scripted for DebtBucket {
    fn script() -> Script {
        Script::new("bucket", include_str!("debt_bucket.lua"))
            .parameters(&["capacity", "unit", "rate", "tick"])
            .state(&["debt", "speed"])
            .with(|member| (member.holds_parts, member.can_be_leased) = (true, true))
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.capacity);
        output(self.unit);
        output(self.rate);
        output(self.tick_micros);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Owing> {
        let [debt, speed]: [u64; 2] = numbers.try_into().ok()?;
        let makes_sense = debt <= MAX_PARTS && (debt == 0 || speed > 0);
        makes_sense.then(|| Owing {
            debt,
            tick: self.tick_of(at),
            speed,
        })
    }

    fn numbers(&self, state: &Owing, at: Timestamp, output: &mut dyn FnMut(u64)) {
        output(state.debt_at(self.tick_of(at)));
        output(state.speed);
    }

    fn admission(&self, admission: &LazyStatus, output: &mut dyn FnMut(u64)) {
        if self.waits() {
            // One that would have been refused has no turn.
            let (tick, debt) = self.turn(admission).unwrap_or_default();
            output(tick);
            output(debt);
        }
    }

    fn read(&self, reply: &mut ScriptReply) -> Option<LazyStatus> {
        let member = reply.next()?;
        let mut state = self.state(member.at, &member.numbers)?;
        // What others hold is counted as the debt is stored.
        let stored = state;
        for (amount, at) in member.held_units() {
            self.debit_amount(&mut state, self.converted(&stored, amount), at);
        }
        let (cost, admitted) = (member.cost, member.admitted);
        Some(super::KeyLimit::snapshot(
            self, &state, cost, admitted, member.now,
        ))
    }
}

#[cfg(test)]
mod tests;
