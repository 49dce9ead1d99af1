//! How a bucket stands that is paid off at a steady rate: worked out when it is asked.

use super::Standing;

/// What is owed, and how it is paid off: each number of a [`Standing`] costs a division, and mostly
/// nobody asks for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed {
    /// In parts of a unit.
    pub(crate) debt: u64,
    /// When it was owed.
    pub(crate) tick: u64,
    pub(crate) now_micros: u64,
    pub(crate) parts_per_unit: u64,
    pub(crate) parts_per_tick: u64,
    pub(crate) tick_micros: u32,
    pub(crate) cost: u32,
    pub(crate) is_admitted: bool,
    /// Whether an admitted request waits until what was owed before it is paid.
    pub(crate) is_queue: bool,
}

impl Owed {
    /// How the bucket stands, of which `limit` units may be owed.
    #[inline(always)]
    pub(super) fn standing(&self, limit: u64) -> Standing {
        let capacity = limit * self.parts_per_unit;
        let remaining = capacity.saturating_sub(self.debt) / self.parts_per_unit;
        let cost = u64::from(self.cost);
        let standing = Standing::of(limit, remaining, cost, self.is_admitted, |units| {
            let parts = (units <= limit).then(|| units * self.parts_per_unit)?;
            self.micros_to_pay(self.debt.saturating_add(parts).saturating_sub(capacity))
        });
        Standing {
            delay_micros: self.delay_micros(),
            ..standing
        }
    }

    /// How long an admitted request is held back.
    #[inline]
    pub(crate) fn delay_micros(&self) -> u64 {
        if !(self.is_queue && self.is_admitted && self.cost > 0) {
            return 0;
        }
        let charged = u64::from(self.cost).saturating_mul(self.parts_per_unit);
        self.micros_to_pay(self.debt.saturating_sub(charged))
            .unwrap_or(0)
    }

    /// Microseconds until so many parts are paid; `None` if they never are.
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
        let paid_at = (self.tick.saturating_add(ticks)).saturating_mul(self.tick_micros.into());
        Some(paid_at.saturating_sub(self.now_micros))
    }
}
