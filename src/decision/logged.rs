//! How a log of admissions stands: worked out when it is asked.

use super::{Outcome, RefusedCost, Standing};

/// What a log still counts, and which of its slots have to be over before there is more room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logged {
    pub(crate) units: u64,
    /// The slots after which there is room for one unit more, for all of them, and for the cost,
    /// if it was refused.
    pub(crate) more_after: u64,
    pub(crate) all_after: u64,
    pub(crate) cost_after: u64,
    pub(crate) now_micros: u64,
    pub(crate) slot_micros: u64,
    /// How long after its slot began an entry still counts.
    pub(crate) span_micros: u64,
    pub(crate) refused_cost: RefusedCost,
}

impl Logged {
    /// How the log stands, in which `limit` units may count.
    #[inline(always)]
    pub(super) fn standing(&self, limit: u64) -> Standing {
        let remaining = limit.saturating_sub(self.units);
        let is_missing = remaining < limit;
        let when = |slot| {
            if is_missing {
                self.micros_until_over(slot)
            } else {
                0
            }
        };
        Standing {
            remaining,
            outcome: match self.is_admitted() {
                true => Outcome::Admitted,
                false if self.refused_cost.units() > limit => Outcome::NeverFits,
                false => Outcome::RefusedForMicros(self.micros_until_over(self.cost_after)),
            },
            replenished_after_micros: when(self.more_after),
            reset_after_micros: when(self.all_after),
            delay_micros: 0,
        }
    }

    #[inline]
    pub(super) fn is_admitted(&self) -> bool {
        self.refused_cost.is_none()
    }

    #[inline]
    fn micros_until_over(&self, slot: u64) -> u64 {
        let over_at = slot + self.span_micros;
        // An entry of an older precision may have begun in the middle of a slot of today's.
        let over_at = match self.slot_micros {
            1 => over_at,
            slot => over_at.next_multiple_of(slot),
        };
        over_at.saturating_sub(self.now_micros)
    }
}
