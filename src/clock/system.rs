//! The clock of the machine.

use std::time::SystemTime;

use super::{Clock, Timestamp};

/// The wall time at its creation plus the monotonic time since: it never steps back.
///
/// A correction of the machine's wall clock takes effect when the process starts again. Whether
/// this clock runs while the machine is suspended depends on the processor: most counters stop or
/// run on, and no more than a burst is refilled. Some start again at zero. Then this clock goes on
/// by the wall time. If that was set back meanwhile, no time passes until it has caught up.
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
        let count = self.counter.raw();
        if count < self.counter_at_start {
            return wall_time();
        }
        let nanos = self.counter.delta_as_nanos(self.counter_at_start, count);
        Timestamp::from_micros(self.wall_micros_at_start + nanos / 1_000)
    }
}

/// The wall time, used after the processor's counter has started again at zero: by the counter
/// alone the clock would stand still for as long as the machine had run before.
#[cold]
fn wall_time() -> Timestamp {
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::default().saturating_add(wall)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_suspended_machine_was_away_for_as_long_as_its_counter_ran() {
        let (counter, by_hand) = quanta::Clock::mock();
        by_hand.increment(HOUR);
        let clock = SystemClock::from_now_by(counter);
        let before = clock.now();
        assert_eq!(clock.now(), before, "it stood still");
        by_hand.increment(HOUR);
        assert_eq!(clock.now(), before.saturating_add(HOUR));
        by_hand.decrement(HOUR / 2);
        assert_eq!(clock.now(), before.saturating_add(HOUR / 2));
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
