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

use std::{fmt, time::Duration};

use crate::{
    algorithm::{Additive, Algorithm, ConfigId, Policy, PolicyId, Script, ScriptReply, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
    lazy_arc::LazyArc,
    policy::Span,
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

/// What is owed, in parts of a unit, and the tick at which it was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debt {
    parts: u64,
    tick: u64,
}

/// The state of a bucket.
pub(super) type Owing = CountByPlan<Rate>;

impl Debt {
    pub(super) fn tick(&self) -> u64 {
        self.tick
    }
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
            && debt.parts + units * self.rate.parts_per_unit <= self.rate.capacity_parts
    }

    /// What a cost adds to the debt.
    #[inline]
    fn parts(&self, cost: u32) -> u64 {
        u64::from(cost) * self.rate.parts_per_unit
    }

    #[inline]
    fn debt_now(&self, state: &Owing, now: Timestamp) -> Debt {
        let is_sole_plan = state.only_own_plan_counted(&self.own);
        self.rate.debt_now(&self.seen(state, is_sole_plan), now)
    }

    /// What is owed as this plan counts it, whichever plan was admitted last.
    #[inline]
    fn seen(&self, state: &Owing, is_sole_plan: bool) -> Debt {
        match is_sole_plan {
            true => state.count,
            false => state.seen_by(&self.own, self.capacity_units),
        }
    }
}

impl Rate {
    /// What is owed at the tick of now, or at the count's own tick if that is later.
    #[inline]
    fn debt_now(&self, count: &Debt, now: Timestamp) -> Debt {
        self.debt_at(self.tick_of(now), count)
    }

    #[inline]
    fn debt_at(&self, tick: u64, count: &Debt) -> Debt {
        let tick = tick.max(count.tick);
        let elapsed = tick - count.tick;
        // Not capped at a span: under an older, larger capacity more may be owed than a span pays.
        let paid = elapsed.saturating_mul(self.parts_per_tick);
        let parts = count.parts.saturating_sub(paid);
        Debt { parts, tick }
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
        self.has_room(self.debt_now(state, now), cost)
    }

    #[inline]
    fn charge(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        self.debit(state, cost.into(), now);
    }

    #[inline]
    fn debit(&self, state: &mut Owing, units: u64, now: Timestamp) {
        let mut debt = self.debt_now(state, now);
        let charged = match self.rate.parts_per_tick {
            // What is never paid back is not owed.
            0 => 0,
            _ => units.saturating_mul(self.rate.parts_per_unit),
        };
        debt.parts = debt.parts.saturating_add(charged).min(MAX_PARTS);
        self.store_count(
            state,
            state.only_own_plan_counted(&self.own),
            debt,
            units,
            now,
        );
    }

    fn refund(&self, state: &mut Owing, cost: u32, now: Timestamp) {
        state.change(&self.own, |rate, count| {
            rate.with_refund(&count, cost.into(), now)
        });
    }

    #[inline]
    fn mend(&self, state: &mut Owing, now: Timestamp) {
        let is_sole_plan = state.only_own_plan_counted(&self.own);
        self.mend_at(self.rate.tick_of(now), state, is_sole_plan, now);
    }

    #[inline]
    fn is_fresh(&self, state: &Owing, now: Timestamp) -> bool {
        let (is_sole_plan, tick) = (
            state.only_own_plan_counted(&self.own),
            self.rate.tick_of(now),
        );
        let count = self.seen(state, is_sole_plan);
        tick >= count.tick
            && self.rate.debt_at(tick, &count).parts == 0
            && (is_sole_plan || state.is_over(now))
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Owing {
        let (parts, tick) = (0, self.rate.tick_of(at));
        CountByPlan::new(Debt { parts, tick }, &self.own)
    }

    /// Mends, judges and charges in one: whether others counted too, the tick and the debt are
    /// worked out once. A twelfth fewer instructions in a decision through the layer than by those
    /// three (bench `instructions`).
    // Inlined always: a check of a token bucket takes 223 instructions so, and 263 otherwise (bench
    // `instructions_of_each`).
    #[inline(always)]
    fn step(&self, state: &mut Owing, cost: u32, now: Timestamp) -> (bool, DebtBucketSnapshot) {
        let (is_sole_plan, tick) = (
            state.only_own_plan_counted(&self.own),
            self.rate.tick_of(now),
        );
        self.mend_at(tick, state, is_sole_plan, now);
        let mut debt = self.rate.debt_at(tick, &self.seen(state, is_sole_plan));
        let admitted = self.has_room(debt, cost);
        if admitted && cost > 0 {
            debt.parts += self.parts(cost);
            self.store_count(state, is_sole_plan, debt, cost.into(), now);
        }
        let snapshot = DebtBucketSnapshot {
            debt,
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
            debt: self.debt_now(state, now),
            now,
            cost,
            admitted,
        }
    }

    #[inline]
    fn describe(&self, snapshot: &DebtBucketSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(self.policy_decision(snapshot).resolved());
    }

    #[inline]
    fn decision(&self, snapshot: &DebtBucketSnapshot) -> Decision {
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

/// What a bucket owed right after a decision, in parts and ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebtBucketSnapshot {
    debt: Debt,
    now: Timestamp,
    cost: u32,
    admitted: bool,
}

impl DebtBucketSnapshot {
    /// The tick, and how many parts were owed then.
    pub(super) fn tick_and_parts(&self) -> (u64, u64) {
        (self.debt.tick, self.debt.parts)
    }
}

impl DebtBucket {
    #[inline]
    fn mend_at(&self, tick: u64, state: &mut Owing, is_sole_plan: bool, now: Timestamp) {
        match is_sole_plan {
            true if state.count.tick > tick + self.rate.span_ticks => state.count.tick = tick,
            true => {}
            false => state.mend(&self.own, now),
        }
    }

    #[inline]
    fn store_count(
        &self,
        state: &mut Owing,
        is_sole_plan: bool,
        debt: Debt,
        units: u64,
        now: Timestamp,
    ) {
        match is_sole_plan {
            true => state.count = debt,
            false => state.admitted(&self.own, debt, units, now),
        }
    }

    #[inline]
    fn policy_decision(&self, snapshot: &DebtBucketSnapshot) -> PolicyDecision {
        PolicyDecision::lazy(&self.policy, self.owed(snapshot, 0).lazy())
    }

    /// What is owed after a decision; see [`Owed::burst_and_rest`].
    #[inline]
    pub(super) fn owed(&self, snapshot: &DebtBucketSnapshot, burst_and_rest: u64) -> Owed {
        Owed {
            debt: snapshot.debt,
            now_micros: snapshot.now.as_micros(),
            parts_per_unit: self.rate.parts_per_unit,
            parts_per_tick: self.rate.parts_per_tick,
            tick_micros: self.rate.tick_micros as u32,
            cost: snapshot.cost,
            is_admitted: snapshot.admitted,
            burst_and_rest,
        }
    }

    /// The fraction of a unit that the capacity has, in parts.
    pub(super) fn rest_parts(&self) -> u64 {
        self.rate.capacity_parts - self.capacity_units * self.rate.parts_per_unit
    }

    pub(super) fn burst_parts(&self, units: u64) -> u64 {
        units * self.rate.parts_per_unit
    }

    pub(super) fn capacity_units(&self) -> u64 {
        self.capacity_units
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    #[inline]
    pub(super) fn only_own_plan_counted(&self, state: &Owing) -> bool {
        state.only_own_plan_counted(&self.own)
    }

    pub(super) fn turn_of(&self, admission: &DebtBucketSnapshot) -> Turn {
        let ends_at = self.rate.paid_at(admission.debt);
        let charged = u128::from(admission.cost) * u128::from(self.rate.parts_per_unit);
        Turn {
            begins_at: ends_at.saturating_sub(charged),
            ends_at,
            cost: admission.cost.into(),
        }
    }

    /// Takes the turn back if it is the last: if nothing was charged after it. The count of another
    /// plan stays charged.
    pub(super) fn take_back(&self, state: &mut Owing, turn: Turn, now: Timestamp) -> bool {
        let is_last = state.was_last_admitted_under(&self.own)
            && self.rate.paid_at(state.count) == turn.ends_at;
        if is_last {
            state.count = self.rate.with_refund(&state.count, turn.cost, now);
        }
        is_last
    }
}

/// The largest number of parts or ticks: what a Lua number holds exactly.
const LARGEST: u128 = 1 << 53;
const MAX_PARTS: u64 = (1 << 53) - 1;
/// The latest expiry that is written: it is still read back.
const MAX_EXPIRY_MICROS: u64 = (1 << 54) - 2;
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
        let burst_units = if quota.units() == 0 {
            0
        } else {
            capacity_units
        };
        let too_large = ConfigError::QuotaTooLarge {
            units: burst_units.max(quota.units()),
            period: quota.period(),
        };
        let room = Room {
            burst_units,
            wait_micros: None,
        };
        Self::with_room(algorithm, quota, room).ok_or(too_large)
    }

    /// The same rate and burst, with room also for what is paid off in this time. A burst of 0
    /// admits nothing, however long anyone would wait.
    pub(super) fn with_wait(&self, wait: Duration) -> Result<Self, ConfigError> {
        let too_long = ConfigError::WaitTooLong {
            wait,
            period: self.quota.period(),
        };
        let Ok(wait_micros) = u64::try_from(wait.as_micros()) else {
            return Err(too_long);
        };
        let room = Room {
            burst_units: self.capacity_units,
            wait_micros: Some(wait_micros),
        };
        let bucket = Self::with_room(self.algorithm, self.quota, room).ok_or(too_long)?;
        Ok(Self {
            policy: bucket.policy.clone().named_like(&self.policy),
            ..bucket
        })
    }

    /// The same, in ticks so coarse that the debt can grow to twice the capacity before it
    /// saturates. Unchanged if no tick is coarse enough.
    pub(super) fn with_headroom(self) -> Self {
        let has_headroom = |bucket: &Self| bucket.rate.capacity_parts <= MAX_PARTS / 2;
        if has_headroom(&self) {
            return self;
        }
        let room = Room {
            burst_units: self.capacity_units,
            wait_micros: None,
        };
        let with_tick = |tick| Self::with_tick(self.algorithm, self.quota, room, tick);
        match (0..=COARSEST_TICK).filter_map(with_tick).find(has_headroom) {
            Some(bucket) => Self {
                policy: bucket.policy.clone().named_like(&self.policy),
                ..bucket
            },
            None => self,
        }
    }

    fn with_room(algorithm: &'static str, quota: Quota, room: Room) -> Option<Self> {
        (0..=COARSEST_TICK).find_map(|tick| Self::with_tick(algorithm, quota, room, tick))
    }

    fn with_tick(
        algorithm: &'static str,
        quota: Quota,
        room: Room,
        tick_exponent: u32,
    ) -> Option<Self> {
        let tick_micros = 10_u64.pow(tick_exponent);
        let period = u128::from(quota.period_micros());
        let paid = u128::from(quota.units()) * u128::from(tick_micros);
        let divisor = greatest_common_divisor(paid, period);
        let (parts_per_tick, parts_per_unit) = (paid / divisor, period / divisor);
        let burst_units = u128::from(room.burst_units);
        let wait_micros = match room.burst_units {
            0 => 0,
            _ => u128::from(room.wait_micros.unwrap_or(0)),
        };
        let wait_ticks = wait_micros / u128::from(tick_micros);
        // What the wait has room for is not rounded down to whole units.
        let capacity_parts = burst_units * parts_per_unit + wait_ticks * parts_per_tick;
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
            units => exact((burst_units * period).div_ceil(u128::from(units)) + wait_micros)?,
        };
        let capacity_units = exact(capacity_parts / parts_per_unit)?;
        let policy = Policy::of_quota(
            algorithm,
            quota,
            room.policy_suffix(quota),
            capacity_units,
            window_micros,
        );
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

    /// The same rule and numbers, under the name of another algorithm.
    pub(super) fn known_as(&self, algorithm: &'static str) -> Self {
        let room = Room {
            burst_units: self.capacity_units,
            wait_micros: None,
        };
        let (policy, more) = (&self.policy, room.policy_suffix(self.quota));
        let (limit, window_micros) = (policy.limit(), policy.window_micros());
        Self {
            algorithm,
            policy: Policy::of_quota(algorithm, self.quota, more, limit, window_micros)
                .named_like(policy),
            ..self.clone()
        }
    }

    pub(super) fn named(mut self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.policy = self.policy.named(name)?;
        Ok(self)
    }

    pub(super) fn with_policy(mut self, change: impl FnOnce(Policy) -> Policy) -> Self {
        self.policy = change(self.policy);
        self
    }

    #[inline]
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a turn is still to come, and another one behind it. One of before a far step back of
    /// the clock may seem to lie behind all that is owed.
    pub(super) fn is_in_the_middle(&self, state: &Owing, turn: &Turn, now: Timestamp) -> bool {
        let debt = self.rate.debt_now(&state.count, now);
        self.rate.parts_behind(turn, debt).is_some()
    }
}

/// What was charged to one request, or to several adjacent ones: a stretch of the parts that are
/// paid off one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) begins_at: u128,
    pub(super) ends_at: u128,
    /// In units.
    pub(super) cost: u64,
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How much may be owed: a burst, and what is paid off while a request waits.
#[derive(Debug, Clone, Copy)]
struct Room {
    burst_units: u64,
    wait_micros: Option<u64>,
}

impl Room {
    /// What follows the quota in the name of a policy without a name of its own.
    fn policy_suffix(self, quota: Quota) -> PolicySuffix {
        PolicySuffix {
            other_burst: (self.burst_units != quota.units()).then_some(self.burst_units),
            wait_micros: self.wait_micros,
        }
    }
}

struct PolicySuffix {
    other_burst: Option<u64>,
    wait_micros: Option<u64>,
}

impl fmt::Display for PolicySuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(units) = self.other_burst {
            write!(f, "-b{units}")?;
        }
        match self.wait_micros {
            Some(micros) => write!(f, "-w{}", Span(micros)),
            None => Ok(()),
        }
    }
}

impl Rate {
    /// How many parts are paid off, from tick 0 on, until this debt is.
    fn paid_at(&self, debt: Debt) -> u128 {
        u128::from(debt.tick) * u128::from(self.parts_per_tick) + u128::from(debt.parts)
    }

    /// How many parts are owed behind a turn; `None` if none are, or if the turn is paid off.
    pub(super) fn parts_behind(&self, turn: &Turn, debt: Debt) -> Option<u64> {
        let behind = self.paid_at(debt).checked_sub(turn.ends_at)?;
        let behind = u64::try_from(behind).ok()?;
        (1..debt.parts).contains(&behind).then_some(behind)
    }

    /// The turn of so many units, behind which so many parts are owed.
    pub(super) fn turn_before(&self, behind: u64, cost: u64, debt: Debt) -> Option<Turn> {
        let makes_sense = cost > 0 && (1..debt.parts).contains(&behind);
        let ends_at = self.paid_at(debt).checked_sub(behind.into())?;
        let parts = u128::from(cost) * u128::from(self.parts_per_unit);
        let begins_at = ends_at.checked_sub(parts)?;
        makes_sense.then_some(Turn {
            begins_at,
            ends_at,
            cost,
        })
    }

    fn with_refund(&self, count: &Debt, cost: u64, now: Timestamp) -> Debt {
        let debt = self.debt_now(count, now);
        let refunded = cost.saturating_mul(self.parts_per_unit);
        let parts = debt.parts.saturating_sub(refunded);
        Debt { parts, ..debt }
    }

    /// The id of this plan.
    fn id(&self) -> u64 {
        let numbers = [
            self.capacity_parts,
            self.parts_per_unit,
            self.parts_per_tick,
            self.tick_micros,
        ];
        let mixed = numbers
            .iter()
            .fold(0x9E37_79B9_7F4A_7C15_u64, |mixed, number| {
                let mixed = (mixed ^ number).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
                mixed ^ (mixed >> 29)
            });
        // 0 is for a state of several plans.
        (mixed >> 11).max(1)
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
            per_tick => capacity_parts.div_ceil(per_tick),
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
        // A count that is taken over from further plans is rounded up to the next tick.
        count.parts <= MAX_PARTS && count.tick <= MAX_PARTS.div_ceil(self.tick_micros)
    }

    /// The same units, in this plan's parts, paid off at its rate since then.
    fn begun_from(&self, others: &Self, count: Debt) -> Debt {
        let divisor =
            greatest_common_divisor(self.parts_per_unit.into(), others.parts_per_unit.into());
        let [grows, shrinks] = [self, others].map(|rate| u128::from(rate.parts_per_unit));
        // In doubles, as Lua counts, so that every store says the same.
        let parts = count.parts as f64 * (grows / divisor) as f64;
        let parts = (parts / (shrinks / divisor) as f64).ceil();
        Debt {
            parts: (parts as u64).min(MAX_PARTS),
            tick: (count.tick * others.tick_micros / self.tick_micros).min(MAX_PARTS),
        }
    }

    /// The same units, owed at the latest stamp, or so early that they are paid off when they
    /// expire.
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
        let debt = self.debt_now(&count, now);
        let charged = units.saturating_mul(self.parts_per_unit);
        let brim = self.capacity_parts.max(debt.parts);
        let parts = debt.parts.saturating_add(charged).min(brim);
        Debt { parts, ..debt }
    }

    fn matters_until(&self, count: Debt) -> u64 {
        let ticks = match self.parts_per_tick {
            0 => 0,
            per_tick => count.parts.div_ceil(per_tick),
        };
        let expires_at = (count.tick + ticks).saturating_mul(self.tick_micros);
        // A debit may owe more than can ever be paid.
        expires_at.min(MAX_EXPIRY_MICROS)
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
        self.fits_beside(self.debt_now(state, now), units)
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
        snapshot.debt.parts = snapshot.debt.parts.saturating_add(parts).min(MAX_PARTS);
        snapshot
    }
}

impl Scripted for DebtBucket {
    fn script() -> Script {
        Script::new("debt", include_str!("debt_bucket.lua"))
            .parameters(&[
                "capacity_parts",
                "parts_per_unit",
                "parts_per_tick",
                "tick_micros",
                "own_id",
            ])
            .state(&["debt", "debt_tick"])
            .private_state(&["id"])
            .tail([32, 144])
            .replies(&["debt_now", "tick_now"])
            .requires(super::script::FOR_PLANS)
            .with_part_in_place("another plan")
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.rate.capacity_parts);
        tell(self.rate.parts_per_unit);
        tell(self.rate.parts_per_tick);
        tell(self.rate.tick_micros);
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
            // What is owed includes the charge, and is no more than the capacity.
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
