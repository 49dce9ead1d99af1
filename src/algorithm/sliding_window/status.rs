//! What a decision of the sliding window says, resolved when somebody asks.

use crate::decision::{LazyStatus, Status};

use super::Estimate;

impl Estimate {
    /// The same numbers, for a decision.
    #[inline]
    pub(super) fn lazy(self, refused_cost: u32) -> LazyStatus {
        LazyStatus::new(
            refused_cost,
            [
                self.start_micros,
                self.ticks_covered,
                self.previous,
                self.current,
                self.now_micros,
                self.ticks_per_period,
                self.tick_micros,
            ],
            |status, limit| Self::of(status).status(limit, status),
        )
    }

    #[inline]
    fn of(status: &LazyStatus) -> Self {
        let [
            start_micros,
            ticks_covered,
            previous,
            current,
            now_micros,
            ticks_per_period,
            tick_micros,
        ] = *status.numbers();
        Self {
            start_micros,
            ticks_covered,
            previous,
            current,
            now_micros,
            ticks_per_period,
            tick_micros,
        }
    }

    /// The status, if the estimate may be up to `limit` units.
    #[inline]
    fn status(&self, limit: u64, status: &LazyStatus) -> Status {
        let remaining = limit.saturating_sub(self.units());
        let (cost, is_admitted) = (status.refused_cost().into(), status.is_admitted());
        Status::of(limit, remaining, cost, is_admitted, |units| {
            self.wait_micros(limit, units)
        })
    }

    /// Microseconds until this many units are admitted.
    #[inline]
    fn wait_micros(&self, limit: u64, units: u64) -> Option<u64> {
        if units > limit {
            return None;
        }
        if self.has_room(limit, units) {
            return Some(0);
        }
        let ticks = self.ticks_per_period;
        // How many ticks of a window may the period cover, so that the window fits into the room?
        let may_cover = |room: u64, window: u64| match (room, window) {
            (_, 0) => ticks,
            (0, _) => 0,
            (_, window) => (room * ticks / window).min(ticks),
        };
        let (window_start, covered) = match limit.checked_sub(self.current.saturating_add(units)) {
            Some(room) => (
                self.start_micros,
                may_cover(room, self.previous).min(self.ticks_covered),
            ),
            None => (
                self.start_micros + ticks * self.tick_micros,
                may_cover(limit - units, self.current),
            ),
        };
        let elapsed = (ticks - covered) * self.tick_micros;
        Some((window_start + elapsed).saturating_sub(self.now_micros))
    }
}
