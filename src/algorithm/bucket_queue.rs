//! A debt bucket whose requests wait: [`LeakyBucketQueue`](super::LeakyBucketQueue) and
//! [`WaitAtMost`](super::WaitAtMost).
//!
//! It counts as any debt bucket does, and an admitted request leaves when no more than the burst is
//! owed with it: so the burst goes at once, and the rest one by one at the rate. One that costs
//! more than the burst leaves when nothing is owed before it. Nobody overtakes: a request that is
//! charged later leaves later, or at the same instant.
//!
//! # Requests that are dropped while they wait
//!
//! Each admission is a *turn*: a stretch of the parts that are paid off one after the other. The
//! last turn can be taken back as if it had never been. One in the middle cannot: those behind it
//! were promised their instants, and a newcomer in it would overtake them. So it is remembered, and
//! taken back once it is the last. Adjacent turns are remembered as one run. There are at most
//! [`MAX_RUNS`] of them, and only while one plan alone has counted.

use std::time::Duration;

use crate::{
    algorithm::{Algorithm, ConfigId, Policy, PolicyId, Script, ScriptReply, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
};

use super::{
    debt_bucket::{DebtBucket, DebtBucketSnapshot, Owing, Rate, Turn},
    plans::next_of,
};

/// How many runs of dropped requests are remembered for a key.
const MAX_RUNS: usize = 32;

/// A debt bucket whose requests wait.
#[derive(Debug, Clone)]
pub struct BucketQueue {
    bucket: DebtBucket,
    burst_units: u64,
    /// The burst and the fraction of a unit that the capacity has, in parts.
    burst_and_rest: u64,
}

/// What is owed, and the turns of dropped requests.
#[derive(Debug, Clone, PartialEq)]
pub struct OwingInTurns {
    owing: Owing,
    dropped: Option<Box<Dropped>>,
}

/// The turns of requests that were dropped while others waited behind them.
#[derive(Debug, Clone, PartialEq)]
struct Dropped {
    /// The rate under which all of them were charged.
    rate: Rate,
    /// No two of them are adjacent.
    runs: Vec<Turn>,
}

impl Algorithm for BucketQueue {
    type State = OwingInTurns;
    type Snapshot = DebtBucketSnapshot;

    #[inline]
    fn judge(&self, state: &OwingInTurns, cost: u32, now: Timestamp) -> bool {
        self.bucket.judge(&state.owing, cost, now)
    }

    #[inline]
    fn charge(&self, state: &mut OwingInTurns, cost: u32, now: Timestamp) {
        self.change(state, |owing| self.bucket.charge(owing, cost, now));
    }

    #[inline]
    fn debit(&self, state: &mut OwingInTurns, units: u64, now: Timestamp) {
        self.change(state, |owing| self.bucket.debit(owing, units, now));
    }

    /// Changes nothing: those behind keep the turns that they were promised.
    fn refund(&self, _state: &mut OwingInTurns, _cost: u32, _now: Timestamp) {}

    fn withdraw(
        &self,
        state: &mut OwingInTurns,
        admission: &DebtBucketSnapshot,
        _cost: u32,
        now: Timestamp,
    ) {
        let bucket = &self.bucket;
        let mut last = bucket.turn_of(admission);
        if !bucket.take_back(&mut state.owing, last, now) {
            let is_in_the_middle =
                last.cost > 0 && bucket.is_in_the_middle(&state.owing, &last, now);
            if is_in_the_middle && bucket.only_own_plan_counted(&state.owing) {
                let dropped = state.dropped.get_or_insert_with(|| {
                    let (rate, runs) = (bucket.rate(), Vec::new());
                    Box::new(Dropped { rate, runs })
                });
                (dropped.runs).retain(|run| bucket.is_in_the_middle(&state.owing, run, now));
                dropped.remember(last);
            }
            return;
        }
        if let Some(mut dropped) = state.dropped.take() {
            while let Some(run) = dropped.take(last.begins_at) {
                bucket.take_back(&mut state.owing, run, now);
                last = run;
            }
            (dropped.runs).retain(|run| bucket.is_in_the_middle(&state.owing, run, now));
            state.dropped = Some(dropped).filter(|dropped| !dropped.runs.is_empty());
        }
    }

    #[inline]
    fn mend(&self, state: &mut OwingInTurns, now: Timestamp) {
        self.change(state, |owing| self.bucket.mend(owing, now));
    }

    #[inline]
    fn is_fresh(&self, state: &OwingInTurns, now: Timestamp) -> bool {
        self.bucket.is_fresh(&state.owing, now)
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> OwingInTurns {
        OwingInTurns::of(self.bucket.fresh(at))
    }

    #[inline]
    fn inherit(&self, shared: &OwingInTurns, now: Timestamp) -> OwingInTurns {
        OwingInTurns::of(self.bucket.inherit(&shared.owing, now))
    }

    #[inline]
    fn snapshot(
        &self,
        state: &OwingInTurns,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> DebtBucketSnapshot {
        self.bucket.snapshot(&state.owing, cost, admitted, now)
    }

    #[inline]
    fn look(&self, state: &OwingInTurns, cost: u32, now: Timestamp) -> (bool, DebtBucketSnapshot) {
        self.bucket.look(&state.owing, cost, now)
    }

    #[inline]
    fn step(
        &self,
        state: &mut OwingInTurns,
        cost: u32,
        now: Timestamp,
    ) -> (bool, DebtBucketSnapshot) {
        self.change(state, |owing| self.bucket.step(owing, cost, now))
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
    fn delay(&self, snapshot: &DebtBucketSnapshot) -> Duration {
        let owed = self.bucket.owed(snapshot, self.burst_and_rest);
        Duration::from_micros(owed.delay_micros())
    }

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.bucket.policy_id()
    }

    #[inline]
    fn config_id(&self) -> ConfigId {
        self.bucket.config_id()
    }
}

impl BucketQueue {
    #[inline]
    fn policy_decision(&self, snapshot: &DebtBucketSnapshot) -> PolicyDecision {
        let owed = self.bucket.owed(snapshot, self.burst_and_rest);
        PolicyDecision::lazy(self.bucket.policy(), owed.lazy())
    }

    /// Changes what is owed. The remembered turns may be void afterwards.
    #[inline]
    fn change<T>(&self, state: &mut OwingInTurns, change: impl FnOnce(&mut Owing) -> T) -> T {
        match &state.dropped {
            None => change(&mut state.owing),
            Some(_) => self.change_beside_dropped(state, change),
        }
    }

    /// Forgets the remembered turns if what is owed was moved, as the clock has stepped back far,
    /// or if another plan was charged.
    fn change_beside_dropped<T>(
        &self,
        state: &mut OwingInTurns,
        change: impl FnOnce(&mut Owing) -> T,
    ) -> T {
        let tick_before = state.owing.count.tick();
        let changed = change(&mut state.owing);
        let was_moved = state.owing.count.tick() < tick_before;
        let is_sole_plan = self.bucket.only_own_plan_counted(&state.owing);
        state.dropped = state
            .dropped
            .take()
            .filter(|dropped| !was_moved && is_sole_plan && dropped.rate == self.bucket.rate());
        changed
    }
}

impl Dropped {
    /// Remembers one more turn, if there is room.
    fn remember(&mut self, mut turn: Turn) {
        self.runs.retain(|run| {
            let touches = run.ends_at == turn.begins_at || run.begins_at == turn.ends_at;
            if touches {
                turn = Turn {
                    begins_at: turn.begins_at.min(run.begins_at),
                    ends_at: turn.ends_at.max(run.ends_at),
                    cost: turn.cost + run.cost,
                };
            }
            !touches
        });
        if self.runs.len() < MAX_RUNS {
            self.runs.push(turn);
        }
    }

    /// Calls `tell` with each run that is not paid off: how many parts are owed behind it, and its
    /// units.
    fn write(&self, owing: &Owing, tell: &mut dyn FnMut(u64, u64)) {
        for run in &self.runs {
            if let Some(behind) = self.rate.parts_behind(run, owing.count) {
                tell(behind, run.cost);
            }
        }
    }

    /// Reads the runs that were [written](Self::write), if they make sense.
    fn read(owing: &Owing, mut numbers: &[u64]) -> Option<Self> {
        let (rate, mut runs) = (owing.sole_plan()?, Vec::new());
        while !numbers.is_empty() {
            let (behind, units) = (next_of(&mut numbers)?, next_of(&mut numbers)?);
            runs.push(rate.turn_before(behind, units, owing.count)?);
        }
        Some(Self { rate, runs })
    }

    /// Takes out the run that ends there.
    fn take(&mut self, ends_at: u128) -> Option<Turn> {
        let index = self.runs.iter().position(|run| run.ends_at == ends_at)?;
        Some(self.runs.swap_remove(index))
    }
}

impl OwingInTurns {
    fn of(owing: Owing) -> Self {
        Self {
            owing,
            dropped: None,
        }
    }
}

impl BucketQueue {
    /// Lets the burst through at once, and delays what comes behind it.
    pub(super) fn new(bucket: DebtBucket, burst_units: u64) -> Self {
        let burst_and_rest = bucket.burst_parts(burst_units) + bucket.rest_parts();
        Self {
            bucket,
            burst_units,
            burst_and_rest,
        }
    }

    /// The bucket, whose burst goes at once; the rest waits, but no longer than this.
    pub(super) fn with_wait(bucket: &DebtBucket, wait: Duration) -> Result<Self, ConfigError> {
        let burst_units = bucket.capacity_units();
        let bucket = bucket.with_wait(wait)?;
        Ok(Self::new(bucket, burst_units))
    }

    pub(super) fn with_capacity(&self, units: u64) -> Result<Self, ConfigError> {
        let bucket = self.bucket.with_capacity(units)?;
        Ok(Self::new(bucket, self.burst_units))
    }

    pub(super) fn with_policy(self, change: impl FnOnce(Policy) -> Policy) -> Self {
        let bucket = self.bucket.with_policy(change);
        Self { bucket, ..self }
    }

    pub(super) fn named(self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        let bucket = self.bucket.named(name)?;
        Ok(Self { bucket, ..self })
    }
}

impl Scripted for BucketQueue {
    fn script() -> Script {
        DebtBucket::script()
            .without_refund()
            .withdraws(&["admitted_tick", "admitted_debt"])
            .charged_last()
    }

    fn admission(&self, admission: &DebtBucketSnapshot, tell: &mut dyn FnMut(u64)) {
        let (tick, debt) = admission.tick_and_parts();
        tell(tick);
        tell(debt);
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        self.bucket.parameters(tell);
    }

    /// The debt and its tick alone tell of no dropped requests.
    fn state(&self, numbers: &[u64]) -> Option<OwingInTurns> {
        if numbers.len() == 2 {
            return self.bucket.state(numbers).map(OwingInTurns::of);
        }
        let (count, numbers) = numbers.split_last()?;
        let count = usize::try_from(*count).ok()?;
        if count > MAX_RUNS {
            return None;
        }
        let (owing, runs) = numbers.split_at_checked(numbers.len().checked_sub(2 * count)?)?;
        let owing = self.bucket.state(owing)?;
        let dropped = match runs.is_empty() {
            true => None,
            false => Some(Box::new(Dropped::read(&owing, runs)?)),
        };
        Some(OwingInTurns { owing, dropped })
    }

    /// After those of the bucket, for each run of dropped requests how many parts are owed behind
    /// it and how many units it has; then how many runs there are.
    fn numbers(&self, state: &OwingInTurns, tell: &mut dyn FnMut(u64)) {
        self.bucket.numbers(&state.owing, tell);
        let mut count = 0;
        if let Some(dropped) = &state.dropped {
            dropped.write(&state.owing, &mut |behind, units| {
                count += 1;
                tell(behind);
                tell(units);
            });
        }
        tell(count);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<DebtBucketSnapshot> {
        self.bucket.read(reply)
    }
}

#[cfg(test)]
mod tests;
