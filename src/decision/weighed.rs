//! How two windows stand of which the older weighs less and less: worked out when it is asked.

use super::{RefusedCost, Standing};

/// The counts of the running window and of the one before, in a limit of so many ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weighed {
    /// When the running window began.
    pub(crate) start_micros: u64,
    /// How much of the previous window the period still covers.
    pub(crate) ticks_covered: u64,
    pub(crate) previous: u64,
    pub(crate) current: u64,
    pub(crate) now_micros: u64,
    pub(crate) ticks_per_period: u64,
    pub(crate) tick_micros: u64,
    pub(crate) refused_cost: RefusedCost,
}

/// What a Lua number holds exactly.
const LARGEST: u64 = 1 << 53;

impl Weighed {
    /// How the windows stand, whose estimate may be `limit` units.
    #[inline(always)]
    pub(super) fn standing(&self, limit: u64) -> Standing {
        let remaining = limit.saturating_sub(self.units());
        let (cost, is_admitted) = (self.refused_cost.units(), self.is_admitted());
        Standing::of(limit, remaining, cost, is_admitted, |units| {
            self.wait_micros(limit, units)
        })
    }

    /// What counts now: the running window, and what the previous one still weighs, rounded up to
    /// whole units.
    #[inline]
    pub(crate) fn units(&self) -> u64 {
        let weighed = match self.previous.saturating_mul(self.ticks_covered) {
            0 => 0,
            weighed if weighed <= LARGEST => weighed.div_ceil(self.ticks_per_period),
            // Counted under a larger quota of the same name; as a Lua number counts, so that every
            // store says the same.
            _ => {
                let weighed = self.previous as f64 * self.ticks_covered as f64;
                (weighed / self.ticks_per_period as f64).ceil() as u64
            }
        };
        self.current.saturating_add(weighed)
    }

    #[inline]
    pub(super) fn is_admitted(&self) -> bool {
        self.refused_cost.is_none()
    }

    #[inline]
    pub(crate) fn has_room(&self, limit: u64, units: u64) -> bool {
        let room = limit.checked_sub(self.current);
        let room = room.and_then(|room| room.checked_sub(units));
        room.is_some_and(|room| {
            self.previous.saturating_mul(self.ticks_covered) <= room * self.ticks_per_period
        })
    }

    /// Microseconds until so many units are admitted.
    #[inline]
    fn wait_micros(&self, limit: u64, units: u64) -> Option<u64> {
        if units > limit {
            return None;
        }
        if self.has_room(limit, units) {
            return Some(0);
        }
        let ticks = self.ticks_per_period;
        // With so much room beside it, how many ticks of a window may the period still cover?
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
