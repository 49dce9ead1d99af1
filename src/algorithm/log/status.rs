//! What a decision of the log says, resolved when somebody asks.

use crate::decision::{Judgement, LazyStatus, Status};

/// What a log still counts, and which of its slots have to be over before there is more room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logged {
    pub(super) units: u64,
    /// The slots after which there is room for one unit more, for all of them, and for the cost,
    /// if it was refused.
    pub(super) more_after: u64,
    pub(super) all_after: u64,
    pub(super) cost_after: u64,
    pub(super) now_micros: u64,
    pub(super) slot_micros: u64,
    /// How long after its slot began an entry still counts.
    pub(super) span_micros: u64,
}

impl Logged {
    /// The same numbers, for a decision.
    #[inline]
    pub(super) fn lazy(self, refused_cost: u32) -> LazyStatus {
        LazyStatus::new(
            refused_cost,
            [
                self.units,
                self.more_after,
                self.all_after,
                self.cost_after,
                self.now_micros,
                self.slot_micros,
                self.span_micros,
            ],
            |status, limit| Self::of(status).status(limit, status),
        )
    }

    #[inline]
    fn of(status: &LazyStatus) -> Self {
        let [
            units,
            more_after,
            all_after,
            cost_after,
            now_micros,
            slot_micros,
            span_micros,
        ] = *status.numbers();
        Self {
            units,
            more_after,
            all_after,
            cost_after,
            now_micros,
            slot_micros,
            span_micros,
        }
    }

    /// The status of a log in which `limit` units may count.
    #[inline]
    fn status(&self, limit: u64, status: &LazyStatus) -> Status {
        let remaining = limit.saturating_sub(self.units);
        let is_missing = remaining < limit;
        let when = |slot| {
            if is_missing {
                self.micros_until_over(slot)
            } else {
                0
            }
        };
        Status {
            remaining,
            judgement: match status.is_admitted() {
                true => Judgement::Admitted,
                false if u64::from(status.refused_cost()) > limit => Judgement::NeverFits,
                false => Judgement::RefusedForMicros(self.micros_until_over(self.cost_after)),
            },
            replenished_after_micros: when(self.more_after),
            reset_after_micros: when(self.all_after),
            delay_micros: 0,
        }
    }

    #[inline]
    fn micros_until_over(&self, slot: u64) -> u64 {
        let over_at = slot + self.span_micros;
        // An entry of an older precision may have begun in the middle of a slot.
        let over_at = match self.slot_micros {
            1 => over_at,
            slot => over_at.next_multiple_of(slot),
        };
        over_at.saturating_sub(self.now_micros)
    }
}
