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
    algorithm::{Additive, Algorithm, Policy, Script, ScriptReply, Scripted, Status},
    clock::Timestamp,
    decision::LazyStatus,
    error::ConfigError,
    policy::Span,
    quota::Quota,
};

#[derive(Debug, Clone)]
pub struct DebtBucket {
    numbers: Numbers,
    pub(super) policy: Policy,
    capacity_units: u64,
    rate: Rate,
    /// If requests wait, how much may be owed with one that goes at once, and the fraction of a
    /// unit that the capacity has, in parts. Otherwise 0.
    burst_and_rest: u64,
}

/// How much may be owed, and how it is paid off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rate {
    capacity_parts: u64,
    parts_per_unit: u64,
    parts_per_tick: u64,
    tick_micros: u64,
}

/// What is owed, in parts of a unit, and the tick at which it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Debt {
    parts: u64,
    tick: u64,
}

/// The state of a bucket: how long it needs to recover, as a debt and the rate that pays it off.
///
/// Under other numbers of the same policy the same time is owed, up to 2^53 of their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owing {
    debt: Debt,
    parts_per_tick: u64,
}

impl DebtBucket {
    /// Whether the debt stays within the capacity with this cost.
    #[inline]
    fn has_room(&self, debt: Debt, cost: u32) -> bool {
        cost == 0 || self.fits_beside(debt, cost.into())
    }

    /// Whether so many units more stay within the capacity.
    #[inline]
    fn fits_beside(&self, debt: Debt, units: u64) -> bool {
        // No product passes 2^53: units that an empty bucket cannot take are not multiplied.
        units <= self.capacity_units
            && (debt.parts).saturating_add(units * self.rate.parts_per_unit)
                <= self.rate.capacity_parts
    }

    /// What a cost adds to the debt.
    #[inline]
    fn parts(&self, cost: u32) -> u64 {
        u64::from(cost).saturating_mul(self.rate.parts_per_unit)
    }

    /// What is owed now by this limit's numbers.
    #[inline]
    fn debt_now(&self, state: &Owing, now: Timestamp) -> Debt {
        self.rate.debt_at(self.rate.tick_of(now), state)
    }
}

impl Rate {
    /// What is owed at this tick, or at the state's own tick if that is later.
    #[inline]
    fn debt_at(&self, tick: u64, state: &Owing) -> Debt {
        let tick = tick.max(state.debt.tick);
        let elapsed = tick - state.debt.tick;
        // Not capped at a span: by an older, larger capacity more may be owed than a span pays.
        let paid = elapsed.saturating_mul(state.parts_per_tick);
        let mut parts = state.debt.parts.saturating_sub(paid);
        if state.parts_per_tick != self.parts_per_tick && parts > 0 {
            parts = self.converted(parts, state.parts_per_tick);
        }
        Debt { parts, tick }
    }

    /// A debt that was counted at another rate: it takes as long as before to be paid off, rounded
    /// up. In doubles, as Lua counts, so that every store says the same.
    #[cold]
    fn converted(&self, parts: u64, parts_per_tick: u64) -> u64 {
        let [parts, speed, rate] = [parts, parts_per_tick, self.parts_per_tick].map(|it| it as f64);
        let ticks = (parts / speed).floor();
        let rest = (parts - ticks * speed) * rate / speed;
        (ticks as u64)
            .saturating_mul(self.parts_per_tick)
            .saturating_add(rest.ceil() as u64)
    }

    /// How many parts are paid off, from tick 0 on, until this debt is.
    fn paid_at(&self, debt: Debt) -> u128 {
        u128::from(debt.tick) * u128::from(self.parts_per_tick) + u128::from(debt.parts)
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

    #[inline]
    fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline]
    fn judge(&self, state: &Owing, cost: u32, now: Timestamp) -> bool {
        self.has_room(self.debt_now(state, now), cost)
    }

    #[inline]
    fn debit(&self, state: &mut Owing, units: u64, now: Timestamp) {
        let mut debt = self.debt_now(state, now);
        let charged = match self.rate.parts_per_tick {
            // What is never paid back is not owed.
            0 => 0,
            _ => units.saturating_mul(self.rate.parts_per_unit),
        };
        debt.parts = debt.parts.saturating_add(charged);
        *state = self.owing(debt);
    }

    /// Changes nothing where requests wait: those behind keep the turns that they were promised.
    fn refund(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        if cost > 0 && !self.waits() {
            *state = self.without(self.parts(cost), state, now);
        }
    }

    #[inline]
    fn is_fresh(&self, state: &Owing, now: Timestamp) -> bool {
        let tick = self.rate.tick_of(now);
        tick >= state.debt.tick && self.rate.debt_at(tick, state).parts == 0
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Owing {
        let (parts, tick) = (0, self.rate.tick_of(at));
        self.owing(Debt { parts, tick })
    }

    /// Judges and charges in one: the debt is worked out once.
    // Inlined always: a check of a token bucket takes 223 instructions so, and 263 otherwise (bench
    // `instructions_of_each`).
    #[inline(always)]
    fn step(&self, state: &mut Owing, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let mut debt = self.debt_now(state, now);
        let admitted = self.has_room(debt, cost);
        if admitted && cost > 0 {
            debt.parts += self.parts(cost);
            *state = self.owing(debt);
        }
        let debt = self.shown(debt, state);
        (admitted, self.lazily(debt, (cost, admitted), now))
    }

    fn status(&self, state: &Owing, cost: u32, admitted: bool, now: Timestamp) -> Status {
        let status = self.lazy_status(state, cost, admitted, now);
        status.resolve(self.capacity_units)
    }

    #[inline]
    fn lazy_status(&self, state: &Owing, cost: u32, admitted: bool, now: Timestamp) -> LazyStatus {
        let debt = self.shown(self.debt_now(state, now), state);
        self.lazily(debt, (cost, admitted), now)
    }

    #[inline]
    fn delay(&self, status: &LazyStatus) -> Duration {
        match self.burst_and_rest {
            0 => Duration::ZERO,
            _ => Duration::from_micros(status.resolve(self.capacity_units).delay_micros),
        }
    }

    /// Takes a turn back if it is the last: if nothing was charged after it. One in the middle
    /// stays taken: those behind it were promised their instants, and a newcomer in it would
    /// overtake them.
    fn withdraw(&self, state: &mut Owing, admission: &LazyStatus, cost: u32, now: Timestamp) {
        let Some([parts, tick, ..]) = admission.numbers().filter(|_| self.waits()) else {
            return;
        };
        let paid_at = |debt| self.rate.paid_at(debt);
        let turn = Debt { parts, tick };
        let is_last = self.has_counted(state) && paid_at(state.debt) == paid_at(turn);
        if is_last {
            *state = self.without(self.parts(cost), state, now);
        }
    }
}

impl DebtBucket {
    #[inline]
    fn owing(&self, debt: Debt) -> Owing {
        Owing {
            debt: Debt {
                parts: debt.parts.min(MAX_PARTS),
                ..debt
            },
            parts_per_tick: self.rate.parts_per_tick,
        }
    }

    /// The same debt, if it can be counted at this limit's rate; if it is too large for that, less
    /// of it, which is paid off from a later tick on.
    #[inline]
    fn shown(&self, debt: Debt, state: &Owing) -> Debt {
        match debt.parts {
            u64::MAX => self.shown_from_later_on(debt, state),
            _ => debt,
        }
    }

    #[cold]
    fn shown_from_later_on(&self, debt: Debt, state: &Owing) -> Debt {
        let (speed, rate) = (state.parts_per_tick.max(1), self.rate.parts_per_tick);
        let paid = (debt.tick - state.debt.tick).saturating_mul(speed);
        let parts = state.debt.parts.saturating_sub(paid);
        // As many whole ticks as can be counted, and the rest of one.
        let ticks = (parts / speed).min(MAX_PARTS / rate.max(1));
        Debt {
            parts: ticks * rate + self.rate.converted(parts % speed, speed),
            tick: debt.tick + parts / speed - ticks,
        }
    }

    /// What is owed now without so many parts.
    fn without(&self, parts: u64, state: &Owing, now: Timestamp) -> Owing {
        let debt = self.debt_now(state, now);
        self.owing(Debt {
            parts: debt.parts.saturating_sub(parts),
            ..debt
        })
    }

    /// The status after a decision about a cost that left this debt.
    #[inline]
    fn lazily(&self, debt: Debt, cost: (u32, bool), now: Timestamp) -> LazyStatus {
        let numbers = [
            debt.parts,
            debt.tick,
            now.as_micros(),
            self.rate.parts_per_unit,
            self.rate.parts_per_tick,
            self.rate.tick_micros << 32 | u64::from(cost.0),
            self.burst_and_rest,
        ];
        LazyStatus::new(cost, numbers, Self::resolve)
    }

    /// Each number costs a division, and mostly nobody asks for it.
    fn resolve(numbers: &[u64; 7], limit: u64, refused_cost: u64) -> Status {
        let [
            owed,
            tick,
            now,
            unit,
            per_tick,
            tick_and_cost,
            burst_and_rest,
        ] = *numbers;
        let (tick_micros, cost) = (tick_and_cost >> 32, tick_and_cost & u64::from(u32::MAX));
        let micros_to_pay = |parts: u64| {
            let ticks = match per_tick {
                _ if parts == 0 => return Some(0),
                0 => return None,
                1 => parts,
                per_tick => parts.div_ceil(per_tick),
            };
            // A debt that others left may be more than can ever be paid at this rate.
            let paid_at = (tick.saturating_add(ticks)).saturating_mul(tick_micros);
            Some(paid_at.saturating_sub(now))
        };
        let rest = burst_and_rest % unit;
        let capacity = limit * unit + rest;
        let remaining = capacity.saturating_sub(owed) / unit;
        let is_admitted = refused_cost == 0;
        let status = Status::of(limit, remaining, cost, is_admitted, |units| {
            let parts = (units <= limit).then(|| units * unit)?;
            micros_to_pay(owed.saturating_add(parts).saturating_sub(capacity))
        });
        // It leaves when no more than the burst is owed with it, or nothing before it.
        let at_once = (cost.saturating_mul(unit)).max(burst_and_rest - rest);
        let waits = burst_and_rest > 0 && is_admitted && cost > 0;
        Status {
            delay_micros: match waits {
                true => micros_to_pay(owed.saturating_sub(at_once)).unwrap_or(0),
                false => 0,
            },
            // Not the wait for all units, which may be there while less than a unit is owed.
            reset_after_micros: micros_to_pay(owed).unwrap_or(0),
            ..status
        }
    }

    #[inline]
    fn waits(&self) -> bool {
        self.numbers.at_once_units.is_some()
    }
}

/// The largest number of parts or ticks: what a Lua number holds exactly.
const LARGEST: u128 = 1 << 53;
const MAX_PARTS: u64 = (1 << 53) - 1;
/// The longest time from full debt to none.
const MAX_SPAN_MICROS: u128 = 1 << 52;
const COARSEST_TICK: u32 = 6;

/// What a bucket is made from.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    algorithm: &'static str,
    quota: Quota,
    burst_units: u64,
    /// Room for what is paid off while a request waits for so long.
    wait: Option<Duration>,
    /// Where requests wait, how many units go at once.
    at_once_units: Option<u64>,
    /// Whether ticks are so coarse that the debt can grow to twice the capacity before it
    /// saturates.
    has_headroom: bool,
}

impl DebtBucket {
    pub(super) fn new(
        algorithm: &'static str,
        quota: Quota,
        burst_units: u64,
    ) -> Result<Self, ConfigError> {
        Self::of(Numbers {
            algorithm,
            quota,
            burst_units,
            wait: None,
            at_once_units: None,
            has_headroom: false,
        })
    }

    pub(super) fn with_capacity(&self, units: u64) -> Result<Self, ConfigError> {
        self.with(Numbers {
            burst_units: units,
            ..self.numbers
        })
    }

    /// Lets the burst through at once, and delays what comes behind it, but no longer than this. A
    /// burst of 0 admits nothing, however long anyone would wait.
    pub(super) fn with_wait(&self, wait: Duration) -> Result<Self, ConfigError> {
        self.with(Numbers {
            wait: Some(wait),
            at_once_units: Some(self.capacity_units),
            ..self.numbers
        })
    }

    /// Lets one unit through at once, and delays what comes behind it.
    pub(super) fn queue(&self, algorithm: &'static str) -> Self {
        self.with_the_same_room(Numbers {
            algorithm,
            at_once_units: Some(1),
            ..self.numbers
        })
    }

    /// In coarser ticks, if that is needed and there are some.
    pub(super) fn with_headroom(&self) -> Self {
        self.with_the_same_room(Numbers {
            has_headroom: true,
            ..self.numbers
        })
    }

    fn with_the_same_room(&self, numbers: Numbers) -> Self {
        self.with(numbers)
            .expect("a bucket with this room was made before")
    }

    fn with(&self, numbers: Numbers) -> Result<Self, ConfigError> {
        let bucket = Self::of(numbers)?;
        let policy = bucket.policy.clone().named_like(&self.policy);
        Ok(Self { policy, ..bucket })
    }

    fn of(numbers: Numbers) -> Result<Self, ConfigError> {
        let mut buckets = (0..=COARSEST_TICK)
            .filter_map(|exponent| Self::with_tick(numbers, 10_u64.pow(exponent)));
        let has_headroom = |bucket: &Self| bucket.rate.capacity_parts <= MAX_PARTS / 2;
        match buckets.next() {
            Some(finest) if !numbers.has_headroom || has_headroom(&finest) => Ok(finest),
            Some(finest) => Ok(buckets.find(has_headroom).unwrap_or(finest)),
            None => {
                let (units, period) = (numbers.quota.units(), numbers.quota.period());
                Err(match numbers.wait {
                    Some(wait) => ConfigError::WaitTooLong { wait, period },
                    None => ConfigError::QuotaTooLarge {
                        units: units.max(numbers.burst_units),
                        period,
                    },
                })
            }
        }
    }

    /// None if these numbers cannot be counted exactly in such ticks.
    fn with_tick(numbers: Numbers, tick_micros: u64) -> Option<Self> {
        let exact = |number: u128| u64::try_from(number).ok();
        let (quota, period) = (numbers.quota, u128::from(numbers.quota.period_micros()));
        let paid = u128::from(quota.units()) * u128::from(tick_micros);
        let divisor = greatest_common_divisor(paid, period);
        let (parts_per_tick, parts_per_unit) = (paid / divisor, period / divisor);
        // Without any units nothing is ever paid back, so nothing may be owed.
        let burst_units = match quota.units() {
            0 => 0,
            _ => numbers.burst_units,
        };
        let burst_parts = u128::from(burst_units) * parts_per_unit;
        let wait_micros = match burst_units {
            0 => 0,
            _ => numbers.wait.map_or(0, |wait| wait.as_micros()),
        };
        // What the wait has room for is not rounded down to whole units.
        let wait_ticks = wait_micros / u128::from(tick_micros);
        let capacity_parts = burst_parts + wait_ticks.checked_mul(parts_per_tick)?;
        let span_ticks = match parts_per_tick {
            0 => 0,
            _ => capacity_parts.div_ceil(parts_per_tick),
        };
        let span_micros = span_ticks * u128::from(tick_micros);
        if capacity_parts + parts_per_tick > LARGEST || span_micros > MAX_SPAN_MICROS {
            return None;
        }
        let capacity_units = exact(capacity_parts / parts_per_unit)?;
        let burst_and_rest = numbers.at_once_units.map_or(0, |units| {
            u128::from(units) * parts_per_unit + capacity_parts % parts_per_unit
        });
        let to_win_back = |units: u64| (u128::from(burst_units) * period).div_ceil(units.into());
        let window_micros = match quota.units() {
            0 => quota.period_micros(),
            units => exact(to_win_back(units) + wait_micros)?,
        };
        let mut more = String::new();
        if burst_units != quota.units() {
            more += &format!("-b{burst_units}");
        }
        if let Some(wait) = numbers.wait {
            more += &format!("-w{}", Span(exact(wait.as_micros())?));
        }
        let never = if quota.units() == 0 {
            "-never-paid"
        } else {
            ""
        };
        let policy = Policy::of_quota(
            numbers.algorithm,
            quota,
            more,
            capacity_units,
            window_micros,
        )
        .of_shape(format_args!("bucket-{}{never}", Span(tick_micros)));
        Some(Self {
            numbers,
            policy,
            capacity_units,
            rate: Rate {
                capacity_parts: exact(capacity_parts)?,
                parts_per_unit: exact(parts_per_unit)?,
                parts_per_tick: exact(parts_per_tick)?,
                tick_micros,
            },
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
    #[inline]
    fn fits(&self, state: &Owing, parts: u64, now: Timestamp) -> bool {
        let owed = self.debt_now(state, now).parts.saturating_add(parts);
        owed <= self.rate.capacity_parts
    }

    #[inline]
    fn amount(&self, units: u64) -> u64 {
        units
            .saturating_mul(self.rate.parts_per_unit)
            .min(MAX_PARTS)
    }

    #[inline]
    fn has_counted(&self, state: &Owing) -> bool {
        state.parts_per_tick == self.rate.parts_per_tick
    }

    #[inline]
    fn converted(&self, state: &Owing, parts: u64) -> u64 {
        match self.has_counted(state) || parts == 0 {
            true => parts,
            false => self
                .rate
                .converted(parts, state.parts_per_tick)
                .min(MAX_PARTS),
        }
    }

    fn debit_amount(&self, state: &mut Owing, parts: u64, now: Timestamp) {
        let mut debt = self.debt_now(state, now);
        debt.parts = debt.parts.saturating_add(parts);
        *state = self.owing(debt);
    }

    fn status_beside(&self, state: &Owing, held: u64, cost: (u32, bool), now: Timestamp) -> Status {
        let mut debt = self.shown(self.debt_now(state, now), state);
        debt.parts = debt.parts.saturating_add(held);
        self.lazily(debt, cost, now).resolve(self.capacity_units)
    }
}

impl Scripted for DebtBucket {
    fn script() -> Script {
        Script::new("bucket", include_str!("bucket.lua"))
            .parameters(&["capacity", "unit", "rate", "tick"])
            .state(&["debt", "speed"])
            .with(|member| member.holds_parts = true)
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.rate.capacity_parts);
        tell(self.rate.parts_per_unit);
        tell(self.rate.parts_per_tick);
        tell(self.rate.tick_micros);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Owing> {
        let &[parts, parts_per_tick] = numbers else {
            return None;
        };
        let makes_sense = parts <= MAX_PARTS && (parts == 0 || parts_per_tick > 0);
        makes_sense.then(|| Owing {
            debt: Debt {
                parts,
                tick: self.rate.tick_of(at),
            },
            parts_per_tick,
        })
    }

    fn numbers(&self, state: &Owing, at: Timestamp, tell: &mut dyn FnMut(u64)) {
        let tick = self.rate.tick_of(at).max(state.debt.tick);
        let paid = (tick - state.debt.tick).saturating_mul(state.parts_per_tick);
        tell(state.debt.parts.saturating_sub(paid));
        tell(state.parts_per_tick);
    }

    /// Of a turn, the tick and what was owed then.
    fn admission(&self, admission: &LazyStatus, tell: &mut dyn FnMut(u64)) {
        if let Some([parts, tick, ..]) = admission.numbers().filter(|_| self.waits()) {
            tell(tick);
            tell(parts);
        }
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<LazyStatus> {
        let member = reply.next_member()?;
        let mut state = self.state(member.at, member.numbers)?;
        let charged = u64::from(member.cost).saturating_mul(self.rate.parts_per_unit);
        // What is owed includes the charge, and is no more than the capacity.
        let makes_sense = !member.charged
            || member.cost == 0
            || (charged..=self.rate.capacity_parts).contains(&state.debt.parts);
        // What others hold is counted as the debt is stored.
        let held = (member.held_units())
            .into_iter()
            .map(|(amount, at)| (self.converted(&state, amount), at));
        for (amount, at) in held.collect::<Vec<_>>() {
            self.debit_amount(&mut state, amount, at);
        }
        makes_sense.then(|| self.lazy_status(&state, member.cost, member.admitted, member.now))
    }
}

#[cfg(test)]
mod tests;
