//! How many units in how long.

use std::time::Duration;

use crate::error::ConfigError;

/// So many units per period: `Quota::per_second(60)` is sixty in each second.
///
/// What a unit is, the [cost](crate::RateLimitLayer::cost) says: by default every request costs one.
/// Periods are whole microseconds; what is left of one is rounded **up**, which never lets through
/// more than was asked for.
///
/// # Example: the same rate, said in two ways
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// let quota = Quota::per_minute(120);
/// assert_eq!((quota.units(), quota.period()), (120, Duration::from_secs(60)));
/// assert_eq!(Quota::one_every(Duration::from_millis(500)), Quota::new(1, Duration::from_millis(500)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    units: u64,
    period_micros: u64,
}

impl Quota {
    /// The longest period: 2<sup>51</sup> microseconds, some seventy years.
    pub const LONGEST_PERIOD: Duration = Duration::from_micros(1 << 51);

    /// So many units in each second. 0 units refuse every cost of 1 or more.
    pub const fn per_second(units: u64) -> Self {
        Self::of_seconds(units, 1)
    }

    /// So many units in each minute. 0 units refuse every cost of 1 or more.
    pub const fn per_minute(units: u64) -> Self {
        Self::of_seconds(units, 60)
    }

    /// So many units in each hour. 0 units refuse every cost of 1 or more.
    pub const fn per_hour(units: u64) -> Self {
        Self::of_seconds(units, 60 * 60)
    }

    /// So many units in each day of 24 hours. 0 units refuse every cost of 1 or more.
    pub const fn per_day(units: u64) -> Self {
        Self::of_seconds(units, 24 * 60 * 60)
    }

    const fn of_seconds(units: u64, seconds: u64) -> Self {
        Self {
            units,
            period_micros: seconds * 1_000_000,
        }
    }

    /// So many units in each period.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(units: u64, period: Duration) -> Self {
        Self::try_new(units, period).unwrap_or_else(|error| panic!("{error}"))
    }

    /// So many units in each period.
    ///
    /// # Errors
    ///
    /// The period is shorter than 1 µs or longer than [`LONGEST_PERIOD`](Self::LONGEST_PERIOD).
    ///
    /// # Example: no time at all is no period
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// let error = Quota::try_new(5, Duration::ZERO).unwrap_err();
    /// assert_eq!(error.to_string(), "the period 0ns is shorter than one microsecond");
    /// ```
    pub fn try_new(units: u64, period: Duration) -> Result<Self, ConfigError> {
        if period < Duration::from_micros(1) {
            return Err(ConfigError::PeriodTooShort { period });
        }
        if period > Self::LONGEST_PERIOD {
            return Err(ConfigError::PeriodTooLong {
                period,
                longest: Self::LONGEST_PERIOD,
            });
        }
        Ok(Self {
            units,
            period_micros: micros_rounded_up(period),
        })
    }

    /// One unit in each interval.
    ///
    /// # Panics
    ///
    /// Where [`try_one_every`](Self::try_one_every) fails, with its error as the message.
    #[track_caller]
    pub fn one_every(interval: Duration) -> Self {
        Self::new(1, interval)
    }

    /// One unit in each interval.
    ///
    /// # Errors
    ///
    /// The interval is shorter than 1 µs or longer than [`LONGEST_PERIOD`](Self::LONGEST_PERIOD).
    pub fn try_one_every(interval: Duration) -> Result<Self, ConfigError> {
        Self::try_new(1, interval)
    }

    /// The units of each period.
    pub const fn units(self) -> u64 {
        self.units
    }

    /// The period, in whole microseconds.
    pub const fn period(self) -> Duration {
        Duration::from_micros(self.period_micros)
    }

    pub(crate) const fn period_micros(self) -> u64 {
        self.period_micros
    }
}

/// Whole microseconds, rounded up; the duration must be at most [`Quota::LONGEST_PERIOD`].
pub(crate) fn micros_rounded_up(duration: Duration) -> u64 {
    let micros = duration.as_nanos().div_ceil(1_000);
    u64::try_from(micros).expect("at most 2^51 microseconds")
}
