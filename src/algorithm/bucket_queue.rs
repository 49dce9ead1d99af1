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
//! [`MAX_RUNS`] of them, until requests at another rate are charged.

use std::time::Duration;

use crate::{
    algorithm::{Additive, Algorithm, Policy, PolicyId, Script, ScriptReply, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
    error::ConfigError,
};

use super::debt_bucket::{DebtBucket, DebtBucketSnapshot, Owing, Turn};

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
#[derive(Debug, Clone, Default, PartialEq)]
struct Dropped {
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
                last.parts() > 0 && bucket.is_in_the_middle(&state.owing, &last, now);
            if is_in_the_middle && bucket.has_counted(&state.owing) {
                let dropped = (state.dropped).get_or_insert_with(|| Box::new(Dropped::default()));
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

    /// Forgets the remembered turns if what is owed is counted at another rate from now on.
    fn change_beside_dropped<T>(
        &self,
        state: &mut OwingInTurns,
        change: impl FnOnce(&mut Owing) -> T,
    ) -> T {
        let before = state.owing;
        let changed = change(&mut state.owing);
        if state.owing != before && !self.bucket.has_counted(&before) {
            state.dropped = None;
        }
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
                };
            }
            !touches
        });
        if self.runs.len() < MAX_RUNS {
            self.runs.push(turn);
        }
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
        DebtBucket::script().charged_last().with(|member| {
            member.refunds = false;
            member.withdraws = true;
        })
    }

    fn admission(&self, admission: &DebtBucketSnapshot, tell: &mut dyn FnMut(u64)) {
        let (tick, debt) = admission.tick_and_parts();
        tell(tick);
        tell(debt);
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        self.bucket.parameters(tell);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<OwingInTurns> {
        self.bucket.state(at, numbers).map(OwingInTurns::of)
    }

    /// Dropped requests that are remembered are not told.
    fn numbers(&self, state: &OwingInTurns, at: Timestamp, tell: &mut dyn FnMut(u64)) {
        self.bucket.numbers(&state.owing, at, tell);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<DebtBucketSnapshot> {
        self.bucket.read(reply)
    }
}

#[cfg(test)]
mod tests;
