//! What a decision of the bucket says, resolved when somebody asks.

use crate::decision::{LazyStatus, Status};

use super::Debt;

/// What is owed, and how it is paid off: each number of a [`Status`] costs a division, and mostly
/// nobody asks for it.
#[derive(Debug, Clone, Copy)]
pub(in crate::algorithm) struct Owed {
    pub(super) debt: Debt,
    pub(super) now_micros: u64,
    pub(super) parts_per_unit: u64,
    pub(super) parts_per_tick: u64,
    pub(super) tick_micros: u32,
    pub(super) cost: u32,
    pub(super) is_admitted: bool,
    /// If requests wait: the burst and the fraction of a unit that the capacity has, in parts.
    /// Otherwise 0.
    ///
    /// A request goes through at once, or when no more than the burst is owed with it; one that
    /// costs more than the burst, when nothing is owed before it.
    pub(super) burst_and_rest: u64,
}

impl Owed {
    /// The same numbers, for a decision.
    #[inline]
    pub(in crate::algorithm) fn lazy(self) -> LazyStatus {
        let refused_cost = if self.is_admitted { 0 } else { self.cost };
        LazyStatus::new(
            refused_cost,
            [
                self.debt.parts,
                self.debt.tick,
                self.now_micros,
                self.parts_per_unit,
                self.parts_per_tick,
                u64::from(self.tick_micros) << 32 | u64::from(self.cost),
                self.burst_and_rest,
            ],
            |status, limit| Self::of(status).status(limit),
        )
    }

    #[inline]
    fn of(status: &LazyStatus) -> Self {
        let [
            parts,
            tick,
            now_micros,
            parts_per_unit,
            parts_per_tick,
            tick_and_cost,
            burst_and_rest,
        ] = *status.numbers();
        Self {
            debt: Debt { parts, tick },
            now_micros,
            parts_per_unit,
            parts_per_tick,
            tick_micros: (tick_and_cost >> 32) as u32,
            cost: tick_and_cost as u32,
            is_admitted: status.is_admitted(),
            burst_and_rest,
        }
    }

    /// The status of a bucket of which `limit` units may be owed.
    #[inline]
    fn status(&self, limit: u64) -> Status {
        let capacity = limit * self.parts_per_unit + self.rest();
        let remaining = capacity.saturating_sub(self.debt.parts) / self.parts_per_unit;
        let cost = u64::from(self.cost);
        let status = Status::of(limit, remaining, cost, self.is_admitted, |units| {
            let parts = (units <= limit).then(|| units * self.parts_per_unit)?;
            self.micros_to_pay(
                self.debt
                    .parts
                    .saturating_add(parts)
                    .saturating_sub(capacity),
            )
        });
        Status {
            delay_micros: self.delay_micros(),
            // Not the wait for `limit` units, which may be there while less than a unit is owed.
            reset_after_micros: self.micros_to_pay(self.debt.parts).unwrap_or(0),
            ..status
        }
    }

    /// The fraction of a unit that the capacity has, in parts.
    #[inline]
    fn rest(&self) -> u64 {
        match self.burst_and_rest {
            0 => 0,
            both => both % self.parts_per_unit,
        }
    }

    /// How long an admitted request is delayed.
    #[inline]
    pub(in crate::algorithm) fn delay_micros(&self) -> u64 {
        if self.burst_and_rest == 0 || !self.is_admitted || self.cost == 0 {
            return 0;
        }
        let burst = self.burst_and_rest - self.rest();
        let charged = u64::from(self.cost).saturating_mul(self.parts_per_unit);
        self.micros_to_pay(self.debt.parts.saturating_sub(charged.max(burst)))
            .unwrap_or(0)
    }

    /// Microseconds until this many parts are paid; `None` if they never are.
    #[inline]
    fn micros_to_pay(&self, parts: u64) -> Option<u64> {
        if parts == 0 {
            return Some(0);
        }
        let ticks = match self.parts_per_tick {
            0 => return None,
            1 => parts,
            per_tick => parts.div_ceil(per_tick),
        };
        // A debt that others left may be more than can ever be paid at this rate.
        let paid_at =
            (self.debt.tick.saturating_add(ticks)).saturating_mul(self.tick_micros.into());
        Some(paid_at.saturating_sub(self.now_micros))
    }
}
