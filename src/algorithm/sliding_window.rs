use crate::{
    algorithm::{Additive, Algorithm, JudgedCost, Policy, Script, Scripted, Status},
    clock::Timestamp,
    decision::LazyStatus,
    error::{ConfigError, or_panic},
    quota::Quota,
};

use super::{
    debt_bucket::ticks,
    described::{Described, Given},
    fixed_window::{MAX_UNITS, countable, too_large},
    setters::setters,
};

/// Admits a request if an estimate of the units taken in the period up to now leaves room for its
/// cost; refuses it otherwise.
///
/// The estimate is the running window's count plus the previous one's, weighted by how much of it
/// the period still covers: previous·(P−elapsed)/P + current, compared as exact integers. What has
/// elapsed is rounded down to a tick: 1 µs, or up to 1 s where the numbers of a very large quota
/// would not be exact otherwise.
///
/// - **Bound**: in any span of one period at most n + ⌊n(P−2)/P⌋ units, which is 2n − 1 (if n ≤ P/2
///   in microseconds): the estimate takes the previous window as evenly spread, and a caller who
///   put all of it at its end gets almost twice the quota. With evenly spread traffic it is very
///   near n.
/// - **Memory**: 24 bytes per key.
/// - **Not for** callers who would use that: [`SlidingLog`](super::SlidingLog) and strict
///   [`SlidingBuckets`](super::SlidingBuckets) are exact.
///
/// ![Ten a second: right after a burst of ten, most of it still counts][sliding_window]
///
/// Source: the sliding window counter, as described by Cloudflare in *How we built rate limiting
/// capable of scaling to millions of domains* (2017).
///
/// # Example: half of the previous window still counts
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::SlidingWindow, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(SlidingWindow::new(Quota::per_second(10)), store);
///
/// assert!(limiter.check_cost("bob", 8).await?.is_admitted());
/// clock.advance(Duration::from_millis(1_500));
/// assert_eq!(limiter.peek("bob").await?.remaining(), 6);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/sliding_window.md")]
#[derive(Debug, Clone)]
pub struct SlidingWindow {
    policy: Policy,
    by: Weighing,
}

/// How the windows are weighed, and what their weight may be.
#[derive(Debug, Clone, Copy)]
struct Weighing {
    units: u64,
    period_micros: u64,
    tick_micros: u64,
    ticks_per_period: u64,
}

/// The counts of the window that the stamp is in, and of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoWindows {
    stamp: u64,
    previous: u64,
    current: u64,
}

impl Weighing {
    fn new(units: u64, period_micros: u64, tick_micros: u64) -> Self {
        Self {
            units,
            period_micros,
            tick_micros,
            ticks_per_period: period_micros / tick_micros,
        }
    }

    /// The counts as of now, or as of the state's own time if that is later.
    #[inline]
    fn windows_at(&self, state: &TwoWindows, now: Timestamp) -> TwoWindows {
        let stamp = now.as_micros().max(state.stamp);
        let start = self.start_of(stamp);
        let (previous, current) = match state.stamp {
            last if last >= start => (state.previous, state.current),
            last if last + self.period_micros >= start => (state.current, 0),
            _ => (0, 0),
        };
        TwoWindows::new(stamp, previous, current)
    }

    #[inline]
    fn start_of(&self, micros: u64) -> u64 {
        micros - micros % self.period_micros
    }

    /// How much the previous window still weighs, in units times the ticks of a period.
    #[inline]
    fn weight_of_previous(&self, windows: &TwoWindows) -> u64 {
        let elapsed = windows.stamp - self.start_of(windows.stamp);
        let elapsed = match self.tick_micros {
            1 => elapsed,
            tick => elapsed / tick,
        };
        // Under a larger quota of the same name there may be more than can be told.
        (windows.previous).saturating_mul(self.ticks_per_period - elapsed)
    }

    /// Whether there is room for so many units more: previous·(P−elapsed)/P + current + units ≤ n,
    /// all times P.
    #[inline]
    fn has_room(&self, windows: &TwoWindows, units: u64) -> bool {
        let room = self.units.checked_sub(windows.current);
        let room = room.and_then(|room| room.checked_sub(units));
        room.is_some_and(|room| self.weight_of_previous(windows) <= room * self.ticks_per_period)
    }

    fn status_of(&self, windows: &TwoWindows, refused_cost: u64, now: Timestamp) -> Status {
        let weight = self.weight_of_previous(windows);
        let weight = weight.div_ceil(self.ticks_per_period);
        let remaining = (self.units).saturating_sub(windows.current.saturating_add(weight));
        let admitted = refused_cost == 0;
        Status::of(self.units, remaining, refused_cost, admitted, |units| {
            self.wait_micros(windows, units, now)
        })
    }

    /// Microseconds until this many units are admitted, for which there is no room now.
    fn wait_micros(&self, windows: &TwoWindows, units: u64, now: Timestamp) -> Option<u64> {
        let start = self.start_of(windows.stamp);
        let room = self.units.checked_sub(units)?;
        // They wait until the previous window has left, or until the running one has become that
        // and the period covers so little of it that it fits into the room.
        let (start, counted, room) = match room.checked_sub(windows.current) {
            Some(room) => (start, windows.previous, room),
            None => (start + self.period_micros, windows.current, room),
        };
        let may_cover = (room * self.ticks_per_period).checked_div(counted)?;
        let elapsed = self.ticks_per_period.saturating_sub(may_cover) * self.tick_micros;
        Some((start + elapsed).saturating_sub(now.as_micros()))
    }
}

impl TwoWindows {
    #[inline]
    fn new(stamp: u64, previous: u64, current: u64) -> Self {
        Self {
            stamp,
            previous,
            current,
        }
    }

    #[inline]
    fn with(self, units: u64) -> Self {
        let current = self.current.saturating_add(units).min(MAX_UNITS);
        Self { current, ..self }
    }
}

setters!(additive SlidingWindow, policy);

impl Algorithm for SlidingWindow {
    type State = TwoWindows;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn judge(&self, state: &TwoWindows, cost: u32, now: Timestamp) -> bool {
        cost == 0 || self.fits(state, cost.into(), now)
    }

    fn debit(&self, state: &mut TwoWindows, units: u64, now: Timestamp) {
        *state = self.by.windows_at(state, now).with(units);
    }

    /// Takes the units out of the running window, then out of the previous one.
    fn refund(&self, state: &mut TwoWindows, cost: u32, now: Timestamp) {
        let cost = u64::from(cost);
        *state = self.by.windows_at(state, now);
        state.previous = (state.previous).saturating_sub(cost.saturating_sub(state.current));
        state.current = state.current.saturating_sub(cost);
    }

    #[inline]
    fn is_fresh(&self, state: &TwoWindows, now: Timestamp) -> bool {
        let windows = self.by.windows_at(state, now);
        state.stamp <= now.as_micros() && (windows.previous, windows.current) == (0, 0)
    }

    fn fresh(&self, at: Timestamp) -> TwoWindows {
        TwoWindows::new(at.as_micros(), 0, 0)
    }

    /// The windows are worked out once.
    // Inlined always: a check takes 0.88 of governor's time so, and 1.03 otherwise (bench
    // `decision`).
    #[inline(always)]
    fn step(&self, state: &mut TwoWindows, cost: u32, now: Timestamp) -> (bool, LazyStatus) {
        let mut windows = self.by.windows_at(state, now);
        let admitted = cost == 0 || self.by.has_room(&windows, cost.into());
        if admitted && cost > 0 {
            windows = windows.with(cost.into());
            *state = windows;
        }
        (admitted, self.lazily(windows, (cost, admitted), now))
    }

    fn status(&self, state: &TwoWindows, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.status_beside(state, 0, (cost, admitted), now)
    }

    fn lazy_status(&self, state: &TwoWindows, cost: JudgedCost, now: Timestamp) -> LazyStatus {
        self.lazily(self.by.windows_at(state, now), cost, now)
    }
}

/// What a Lua number holds exactly.
const LARGEST: u64 = 1 << 53;

impl SlidingWindow {
    /// Two counters, of the running and of the previous window.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(quota: Quota) -> Self {
        or_panic(Self::try_new(quota))
    }

    /// Two counters, of the running and of the previous window.
    ///
    /// # Errors
    ///
    /// The quota is so large that no tick (of 1, 10, … 10<sup>6</sup> µs) that divides the period
    /// can weigh it exactly, or has more than 2<sup>53</sup> − 2<sup>32</sup> units.
    pub fn try_new(quota: Quota) -> Result<Self, ConfigError> {
        let (units, period) = (countable(quota)?.units(), quota.period_micros());
        let weighs_exactly = |&tick: &u64| {
            period.is_multiple_of(tick)
                && u128::from(units) * u128::from(period / tick) <= LARGEST.into()
        };
        let tick_micros = ticks().find(weighs_exactly);
        let tick_micros = tick_micros.ok_or_else(|| too_large(quota))?;
        Ok(Self {
            policy: Policy::of_window("sliding-window", quota, ""),
            by: Weighing::new(units, period, tick_micros),
        })
    }

    #[inline]
    fn lazily(&self, windows: TwoWindows, cost: JudgedCost, now: Timestamp) -> LazyStatus {
        let numbers = [
            windows.stamp,
            windows.previous,
            windows.current,
            now.as_micros(),
            self.by.period_micros,
            self.by.tick_micros,
            0,
        ];
        LazyStatus::new(cost, numbers, |numbers, limit, refused_cost| {
            let [stamp, previous, current, now, period, tick, _] = *numbers;
            let windows = TwoWindows::new(stamp, previous, current);
            let by = Weighing::new(limit, period, tick);
            by.status_of(&windows, refused_cost, Timestamp::from_micros(now))
        })
    }
}

impl Additive for SlidingWindow {
    fn fits(&self, state: &TwoWindows, units: u64, now: Timestamp) -> bool {
        self.by.has_room(&self.by.windows_at(state, now), units)
    }

    fn status_beside(
        &self,
        state: &TwoWindows,
        held: u64,
        cost: JudgedCost,
        now: Timestamp,
    ) -> Status {
        let windows = self.by.windows_at(state, now).with(held);
        self.lazily(windows, cost, now).resolve(self.by.units)
    }
}

impl Scripted for SlidingWindow {
    fn script() -> Script {
        Script::new("sliding_window", include_str!("sliding_window.lua"))
            .parameters(&["units", "period", "tick"])
            .state(&["previous", "current"])
            .with(|member| member.can_be_leased = true)
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.by.units);
        output(self.by.period_micros);
        output(self.by.tick_micros);
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<TwoWindows> {
        let [previous, current]: [u64; 2] = numbers.try_into().ok()?;
        let makes_sense = previous <= MAX_UNITS && current <= MAX_UNITS;
        makes_sense.then(|| TwoWindows::new(at.as_micros(), previous, current))
    }

    fn numbers(&self, state: &TwoWindows, at: Timestamp, output: &mut dyn FnMut(u64)) {
        let windows = self.by.windows_at(state, at);
        output(windows.previous);
        output(windows.current);
    }
}

impl Described for SlidingWindow {
    const NAME: &'static str = "sliding-window";

    fn build(given: &Given) -> Result<Self, String> {
        given.make("quota", Self::try_new)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_tick_is_the_finest_that_weighs_exactly_in_a_double() {
        let day = Duration::from_secs(86_400);
        for (units, tick_micros) in [(1 << 16, 1), (1 << 17, 10), (1 << 30, 100_000)] {
            let by = SlidingWindow::new(Quota::new(units, day)).by;
            assert_eq!(by.tick_micros, tick_micros, "{units} units a day");
        }
    }

    #[test]
    fn numbers_beyond_those_of_a_window_are_no_state() {
        let window = SlidingWindow::new(Quota::per_second(10));
        let at = Timestamp::from_micros(1);
        assert!(Scripted::state(&window, at, &[MAX_UNITS; 2]).is_some());
        for numbers in [[MAX_UNITS + 1, 0], [0, MAX_UNITS + 1]] {
            assert!(
                Scripted::state(&window, at, &numbers).is_none(),
                "{numbers:?}"
            );
        }
    }
}
