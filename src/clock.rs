//! Where the time comes from, and how to turn it by hand in a test.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// An instant, in whole microseconds since the Unix epoch.
///
/// At most 2<sup>53</sup> − 1 (the year 2255), which a Lua number still holds exactly;
/// whatever is later is held there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest instant there is.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The instant so many microseconds after the Unix epoch, or [`MAX`](Self::MAX) if that is
    /// earlier.
    ///
    /// # Example: the far future is held at the last instant
    ///
    /// ```
    /// use tollgate::Timestamp;
    ///
    /// assert_eq!(Timestamp::from_micros(1_500).as_micros(), 1_500);
    /// assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
    /// ```
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant moved forward, rounded down to whole microseconds, never past
    /// [`MAX`](Self::MAX).
    pub fn saturating_add(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }
}

/// Tells the time of a store's decisions.
///
/// # What an implementor must do
///
/// Answer quickly and without blocking: it is asked once for every decision. Steps back in time are
/// allowed (they count as no time passed), but a clock that stands still refills no bucket.
pub trait Clock: Clone + Send + Sync + 'static {
    /// The instant it is.
    fn now(&self) -> Timestamp;
}

/// The wall time at its creation plus the monotonic time since: it never steps back.
///
/// A correction of the machine's clock is not followed until the process starts again. Whether time
/// goes by while the machine is suspended is the processor's to say: most counters stand still or
/// go on, and no more is refilled than a burst. One that begins anew steps this clock back with it,
/// which opens nothing and locks nobody for more than two spans.
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
    /// The first one in a process measures the processor's counter, for a fifth of a second at
    /// most.
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
        match self.counter.raw().checked_sub(self.counter_at_start) {
            Some(counts) => Timestamp::from_micros(
                self.wall_micros_at_start + self.micros_per_count.times(counts),
            ),
            None => wall_time(),
        }
    }
}

/// The machine's own time: what is left when the processor's counter began anew, and would stand
/// still for as long as the machine had run before.
#[cold]
fn wall_time() -> Timestamp {
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::default().saturating_add(wall)
}

/// How long the processor's counter takes for one count, in 2<sup>-64</sup> µs: so that telling the
/// time takes one multiplication and no division. A counter below a megahertz, which no processor
/// has, would be told too slowly.
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

/// A clock that stands still until it is turned by hand; its clones show the same time.
///
/// # Example: a refused caller is let in again when its wait is over
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::TokenBucket, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_second(1)), store);
///
/// assert!(limiter.check("bob").await?.is_admitted());
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
///
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check("bob").await?.is_admitted());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows this instant.
    pub fn at(now: Timestamp) -> Self {
        Self {
            micros: Arc::new(AtomicU64::new(now.as_micros())),
        }
    }

    /// Moves the time forward, rounded down to whole microseconds, never past [`Timestamp::MAX`].
    pub fn advance(&self, duration: Duration) {
        let later = |micros| Some(Timestamp(micros).saturating_add(duration).as_micros());
        // The closure always answers `Some`, so there is no failure to look at.
        let _ = self
            .micros
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Sets the time, forward or back.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// quanta rounds twice, to nanoseconds and by the division; this once, and its factor.
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
    fn a_suspended_machine_is_away_for_as_long_as_its_counter_says() {
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

    /// Processors do so that are switched off while the machine sleeps; the counter then takes as
    /// long to come to where it was as the machine had run.
    #[test]
    fn a_counter_that_begins_anew_does_not_stop_the_clock() {
        let (counter, by_hand) = quanta::Clock::mock();
        by_hand.increment(HOUR);
        let clock = SystemClock::from_now_by(counter);
        let start = clock.now();
        by_hand.increment(HOUR);
        by_hand.decrement(2 * HOUR);
        let woken = clock.now();
        assert!(woken >= start && woken < start.saturating_add(HOUR));
        let begin = std::time::Instant::now();
        while clock.now() <= woken {
            assert!(begin.elapsed() < Duration::from_secs(10), "it stands still");
        }
    }
}
