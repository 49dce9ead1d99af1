//! The clock of the machine.

use std::time::SystemTime;

use super::{Clock, Timestamp};

/// The wall time at its creation plus the monotonic time since: it never steps back.
///
/// A correction of the machine's wall clock takes effect when the process starts again. Whether
/// this clock runs while the machine is suspended depends on the processor: most counters stop or
/// run on, and no more than a burst is refilled. Some start again at zero. Then this clock steps
/// back, which admits nothing more and locks nobody out for more than two spans.
///
/// # Example: it moves forward only
///
/// ```
/// use tollgate::clock::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Debug, Clone)]
pub struct SystemClock {
    counter: quanta::Clock,
    counter_at_start: u64,
    micros_per_count: MicrosPerCount,
    wall_micros_at_start: u64,
}

impl SystemClock {
    /// A clock that starts from the machine's wall time.
    ///
    /// The first one in a process calibrates the processor's counter, which takes a fifth of a
    /// second at most.
    pub fn new() -> Self {
        Self::from_now_by(quanta::Clock::new())
    }

    fn from_now_by(counter: quanta::Clock) -> Self {
        Self {
            wall_micros_at_start: wall_time().as_micros(),
            counter_at_start: counter.raw(),
            micros_per_count: MicrosPerCount::of(&counter),
            counter,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        self.read()()
    }

    #[inline]
    fn read(&self) -> impl FnOnce() -> Timestamp {
        let count = self.counter.raw();
        move || match count.checked_sub(self.counter_at_start) {
            Some(counts) => Timestamp::from_micros(
                self.wall_micros_at_start + self.micros_per_count.times(counts),
            ),
            None => wall_time(),
        }
    }
}

/// The wall time, used after the processor's counter has started again at zero: by the counter
/// alone the clock would stand still for as long as the machine had run before.
#[cold]
fn wall_time() -> Timestamp {
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::default().saturating_add(wall)
}

/// How long one count of the processor's counter takes, in 2<sup>-64</sup> µs: so reading the time
/// takes one multiplication and no division. A counter below one megahertz, which no processor has,
/// would run too slowly.
///
/// quanta's own `delta_as_nanos`, and its result by 1 000, take 21 instructions more: a sixteenth
/// of a check, which takes 345 (counted by callgrind; `benches/peers`, bin `instructions`, counts
/// so).
#[derive(Debug, Clone, Copy)]
struct MicrosPerCount(u64);

impl MicrosPerCount {
    fn of(counter: &quanta::Clock) -> Self {
        let nanos = u128::from(counter.delta_as_nanos(0, 1 << 48));
        Self(u64::try_from((nanos << 16) / 1_000).unwrap_or(u64::MAX))
    }

    #[inline]
    fn times(self, counts: u64) -> u64 {
        let micros = (u128::from(counts) * u128::from(self.0)) >> 64;
        micros as u64
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// quanta rounds to nanoseconds and again in its division; this rounds its factor and its
    /// result.
    #[test]
    fn a_count_is_as_long_as_quanta_says() {
        let counter = quanta::Clock::new();
        let micros_per_count = MicrosPerCount::of(&counter);
        for counts in (0..60).flat_map(|power| [(1 << power) - 1, 1 << power, 3 << power]) {
            let told = micros_per_count.times(counts);
            let expected = counter.delta_as_nanos(0, counts) / 1_000;
            let rounding = 1 + expected / 1_000_000_000_000;
            assert!(
                told.abs_diff(expected) <= rounding,
                "{counts}: {told}, {expected}"
            );
        }
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_suspended_machine_was_away_for_as_long_as_its_counter_ran() {
        let (counter, by_hand) = quanta::Clock::mock();
        by_hand.increment(HOUR);
        let clock = SystemClock::from_now_by(counter);
        let before = clock.now();
        assert_eq!(clock.now(), before, "it stood still");
        // The length of a count is rounded down.
        let is_ahead_by = |gone: Duration| {
            let told = clock.now().as_micros() - before.as_micros();
            assert!((0..=1).contains(&(gone.as_micros() - u128::from(told))));
        };
        by_hand.increment(HOUR);
        is_ahead_by(HOUR);
        by_hand.decrement(HOUR / 2);
        is_ahead_by(HOUR / 2);
    }

    /// Some processors are switched off while the machine sleeps. Their counter then needs as long
    /// to reach its old value as the machine had run.
    #[test]
    fn a_counter_that_starts_again_does_not_stop_the_clock() {
        let (counter, by_hand) = quanta::Clock::mock();
        by_hand.increment(HOUR);
        let clock = SystemClock::from_now_by(counter);
        let start = clock.now();
        by_hand.increment(HOUR);
        by_hand.decrement(2 * HOUR);
        let woken = clock.now();
        assert!(woken >= start && woken < start.saturating_add(HOUR));
        let begin = Instant::now();
        while clock.now() <= woken {
            assert!(begin.elapsed() < Duration::from_secs(10), "it stands still");
        }
    }
}
