//! A quota: a number of units per period.

use std::{fmt, str::FromStr, time::Duration};

use crate::error::{ConfigError, or_panic};

/// A number of units per period: `Quota::per_second(60)` is sixty in each second.
///
/// A request takes as many units as its [cost](crate::RateLimitLayer::cost): by default one.
/// Periods are whole microseconds; a fraction is rounded **up**, which never lets through more than
/// was asked for.
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
///
/// # Example: as text, units before the period
///
/// ```
/// use tollgate::Quota;
///
/// assert_eq!("120/min".parse(), Ok(Quota::per_minute(120)));
/// assert_eq!("3/10s".parse::<Quota>()?.to_string(), "3/10s");
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    units: u64,
    period_micros: u64,
}

impl Quota {
    /// The longest period: 2<sup>51</sup> microseconds, some seventy years.
    pub const MAX_PERIOD: Duration = Duration::from_micros(1 << 51);

    /// This many units in each second. 0 units refuse every cost of 1 or more.
    pub const fn per_second(units: u64) -> Self {
        Self::of_seconds(units, 1)
    }

    /// This many units in each minute. 0 units refuse every cost of 1 or more.
    pub const fn per_minute(units: u64) -> Self {
        Self::of_seconds(units, 60)
    }

    /// This many units in each hour. 0 units refuse every cost of 1 or more.
    pub const fn per_hour(units: u64) -> Self {
        Self::of_seconds(units, 60 * 60)
    }

    /// This many units in each day of 24 hours. 0 units refuse every cost of 1 or more.
    pub const fn per_day(units: u64) -> Self {
        Self::of_seconds(units, 24 * 60 * 60)
    }

    const fn of_seconds(units: u64, seconds: u64) -> Self {
        Self {
            units,
            period_micros: seconds * 1_000_000,
        }
    }

    /// This many units in each period.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(units: u64, period: Duration) -> Self {
        or_panic(Self::try_new(units, period))
    }

    /// This many units in each period.
    ///
    /// # Errors
    ///
    /// The period is shorter than 1 µs or longer than [`MAX_PERIOD`](Self::MAX_PERIOD).
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
        let max = Self::MAX_PERIOD;
        if period > max {
            return Err(ConfigError::PeriodTooLong { period, max });
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
    /// The interval is shorter than 1 µs or longer than [`MAX_PERIOD`](Self::MAX_PERIOD).
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

/// The units of time that a quota is written in, the largest first.
const UNITS_OF_TIME: [(&str, u64); 6] = [
    ("day", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// This time in the largest unit that it is a whole number of.
pub(crate) fn in_largest_unit(micros: u64) -> (u64, &'static str) {
    let is_whole = |(_, unit): &(&str, u64)| micros > 0 && micros.is_multiple_of(*unit);
    let found = UNITS_OF_TIME.into_iter().find(is_whole);
    let (name, unit) = found.unwrap_or(("us", 1));
    (micros / unit, name)
}

/// Units per period, the period in the largest unit that it is a whole number of: `20/s`, `3/10s`,
/// `1/1500us`.
///
/// This text is parsed as the same quota again.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match in_largest_unit(self.period_micros) {
            (1, unit) => write!(f, "{}/{unit}", self.units),
            (many, unit) => write!(f, "{}/{many}{unit}", self.units),
        }
    }
}

/// Units per period, without spaces: `20/s`, `100/min`, `3/10s`, `1/100ms`.
///
/// Both numbers are whole, and without the second it is 1. The units of time are `us`, `ms`, `s`
/// (`sec`, `second`), `min` (`m`, `minute`), `h` (`hour`) and `day` (`d`).
impl FromStr for Quota {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let units_and_period = || {
            let (units, period) = text.split_once('/')?;
            let (many, unit) = number_and_rest(period);
            let many = if many.is_empty() { "1" } else { many };
            Some((whole_number(units)?, span(many, unit)?))
        };
        let (units, period) =
            units_and_period().ok_or_else(|| ConfigError::InvalidQuota(text.to_owned()))?;
        Self::try_new(units, period)
    }
}

/// A span of time as text: `100ms`, `10s`, `1h`.
pub(crate) fn span_of_text(text: &str) -> Result<Duration, ConfigError> {
    let (many, unit) = number_and_rest(text);
    span(many, unit).ok_or_else(|| ConfigError::InvalidSpan(text.to_owned()))
}

/// The digits at the start, and what comes after them.
fn number_and_rest(text: &str) -> (&str, &str) {
    let rest = text.trim_start_matches(|character: char| character.is_ascii_digit());
    text.split_at(text.len() - rest.len())
}

/// A number in digits alone: without a sign, which `parse` would take.
fn whole_number(text: &str) -> Option<u64> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    }
}

/// This many of this unit of time. Saturates at 2^64 microseconds, which is longer than any period.
fn span(many: &str, unit: &str) -> Option<Duration> {
    let unit = match unit {
        "sec" | "second" => "s",
        "m" | "minute" => "min",
        "hour" => "h",
        "d" => "day",
        unit => unit,
    };
    let (_, micros) = UNITS_OF_TIME.into_iter().find(|(name, _)| *name == unit)?;
    let many = whole_number(many)?;
    Some(Duration::from_micros(many.saturating_mul(micros)))
}

/// Whole microseconds, rounded up; the duration must be at most [`Quota::MAX_PERIOD`].
pub(crate) fn micros_rounded_up(duration: Duration) -> u64 {
    let micros = duration.as_nanos().div_ceil(1_000);
    u64::try_from(micros).expect("at most 2^51 microseconds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_units_per_period_and_never_the_other_way_round() {
        for (text, quota) in [
            ("20/s", Quota::per_second(20)),
            ("0/s", Quota::per_second(0)),
            ("007/1second", Quota::per_second(7)),
            ("20/1000ms", Quota::per_second(20)),
            ("100/min", Quota::per_minute(100)),
            ("100/m", Quota::per_minute(100)),
            ("100/60sec", Quota::per_minute(100)),
            ("100/minute", Quota::per_minute(100)),
            ("1000/h", Quota::per_hour(1_000)),
            ("1000/hour", Quota::per_hour(1_000)),
            ("5000/day", Quota::per_day(5_000)),
            ("5000/d", Quota::per_day(5_000)),
            ("3/10s", Quota::new(3, Duration::from_secs(10))),
            ("1/100ms", Quota::one_every(Duration::from_millis(100))),
            ("1/7us", Quota::one_every(Duration::from_micros(7))),
        ] {
            assert_eq!(text.parse(), Ok(quota), "{text}");
        }
    }

    #[test]
    fn a_quota_has_the_units_and_the_period_that_it_was_given() {
        let minute = Quota::per_minute(7);
        assert_eq!(minute.units(), 7);
        assert_eq!(minute.period(), Duration::from_secs(60));
        let rounded_up = Quota::one_every(Duration::from_nanos(1_001));
        assert_eq!(rounded_up.period(), Duration::from_micros(2));
    }

    #[test]
    fn every_quota_is_read_again_as_it_was_written() {
        let mut periods: Vec<u64> = (0..=51)
            .flat_map(|bit| [1 << bit, (1 << bit) - 1])
            .collect();
        let counts = [1, 2, 3, 59, 60, 61, 999, 1_000, 1_001, 86_400];
        periods.extend(
            UNITS_OF_TIME
                .iter()
                .flat_map(|(_, unit)| counts.map(|n| n * unit)),
        );
        let allowed = |period: &u64| (1..=1 << 51).contains(period);
        for period in periods.into_iter().filter(allowed) {
            for units in [0, 1, 20, u64::MAX] {
                let quota = Quota::new(units, Duration::from_micros(period));
                let text = quota.to_string();
                assert_eq!(text.parse(), Ok(quota), "{text}");
            }
        }
        let written = ["60/60s", "90/90s", "1/1500us", "1/24h", "1/48h"];
        let told = written.map(|text| text.parse::<Quota>().unwrap().to_string());
        assert_eq!(told, ["60/min", "90/90s", "1/1500us", "1/day", "1/2day"]);
    }

    #[test]
    fn what_is_not_a_quota_is_refused_by_its_text_and_nothing_panics() {
        for text in [
            "",
            "/",
            "//",
            "20",
            "20/",
            "/s",
            "-1/s",
            "+1/s",
            "1e9/s",
            "1.5/s",
            "1_000/s",
            "20/-1s",
            "20/1.5s",
            "20/fortnight",
            "20/S",
            "20/month",
            "s/20",
            "1s/20",
            "20 / s",
            " 20/s",
            "20/s ",
            "20/s/s",
            "20/10",
            "18446744073709551616/s",
            "1/18446744073709551616s",
            "２０/s",
            "20/秒",
            "20∕s",
            "20/µs",
            "\0/s",
            "é/é",
            "20/ss",
            "20/1 s",
            "20/s\n",
        ] {
            let error = text.parse::<Quota>().unwrap_err();
            assert_eq!(error, ConfigError::InvalidQuota(text.to_owned()));
        }
        assert_eq!(
            "20/fortnight".parse::<Quota>().unwrap_err().to_string(),
            r#""20/fortnight" is not a quota, such as "20/s", "3/10s" or "5000/day" (us, ms, s, min, h, day)"#
        );
    }

    #[test]
    fn a_period_of_nothing_and_one_of_ages_are_refused_as_they_are_everywhere() {
        for (text, told) in [
            ("5/0s", "the period 0ns is shorter than one microsecond"),
            (
                "5/30000day",
                "2592000000s is longer than 2251799813.685248s, the longest time that can be counted",
            ),
            (
                "5/18446744073709551615day",
                "18446744073709.551615s is longer than 2251799813.685248s, the longest time that can be counted",
            ),
        ] {
            assert_eq!(text.parse::<Quota>().unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn texts_of_every_few_characters_are_read_or_refused() {
        let pieces = [
            "",
            "0",
            "7",
            "/",
            "s",
            "ms",
            "-",
            " ",
            "é",
            "99999999999999999999",
        ];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    for d in pieces {
                        let text = [a, b, c, d].concat();
                        if let Ok(quota) = text.parse::<Quota>() {
                            assert_eq!(quota.to_string().parse(), Ok(quota), "{text}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        assert_eq!(span_of_text("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(span_of_text("2day"), Ok(Duration::from_secs(2 * 86_400)));
        for text in ["", "s", "10", "10 s", "-1s", "1.5s", "10parsecs", "1/s"] {
            let error = ConfigError::InvalidSpan(text.to_owned());
            assert_eq!(span_of_text(text), Err(error));
        }
    }
}
