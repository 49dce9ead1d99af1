use std::time::Duration;

use crate::{
    algorithm::{Algorithm, Policy, Script, Scripted, Status},
    clock::Timestamp,
    error::{ConfigError, or_panic},
    quota::Quota,
};

use super::{
    described::{Described, Field, Given, Kind, SpanText},
    setters::setters,
};

/// Admits a request if the interval has passed since the last one that was admitted; refuses it
/// otherwise.
///
/// It counts requests: a cost of 1 or more is one.
///
/// - **Bound**: in any span of one period P at most ⌈P/d⌉ requests, where d is the interval.
/// - **Memory**: 8 bytes per key.
/// - **Not for** callers that come in bursts: use [`TokenBucket`](super::TokenBucket). In a tuple
///   it spreads the bursts of another algorithm.
///
/// ![One every 100 ms: of a burst, the first][min_interval]
///
/// # Example: not twice within a hundred milliseconds
///
/// ```
/// use std::time::Duration;
/// use tollgate::{RateLimiter, Timestamp};
/// use tollgate::{algorithm::MinInterval, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(MinInterval::new(Duration::from_millis(100)), store);
///
/// assert!(limiter.check("bob").await?.is_admitted());
/// clock.advance(Duration::from_millis(99));
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(1)));
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/min_interval.md")]
#[derive(Debug, Clone)]
pub struct MinInterval(Policy);

/// The microsecond from which on the next request is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeAt(u64);

impl FreeAt {
    /// Microseconds until the next request is admitted.
    #[inline]
    fn wait_micros(self, now: Timestamp) -> u64 {
        self.0.saturating_sub(now.as_micros())
    }
}

setters!(MinInterval, 0);

impl Algorithm for MinInterval {
    type State = FreeAt;

    #[inline]
    fn policy(&self) -> &Policy {
        &self.0
    }

    /// Whether the interval has passed since the last request that was admitted.
    #[inline]
    fn judge(&self, state: &FreeAt, cost: u32, now: Timestamp) -> bool {
        cost == 0 || state.wait_micros(now) == 0
    }

    #[inline]
    fn debit(&self, state: &mut FreeAt, units: u64, now: Timestamp) {
        if units > 0 {
            state.0 = state.0.max(now.as_micros() + self.0.window_micros());
        }
    }

    /// One request more, whatever its units.
    fn refund(&self, state: &mut FreeAt, cost: u32, _now: Timestamp) {
        if cost > 0 {
            state.0 = 0;
        }
    }

    #[inline]
    fn is_fresh(&self, state: &FreeAt, now: Timestamp) -> bool {
        state.wait_micros(now) == 0
    }

    #[inline]
    fn fresh(&self, _at: Timestamp) -> FreeAt {
        FreeAt(0)
    }

    #[inline]
    fn status(&self, state: &FreeAt, cost: u32, admitted: bool, now: Timestamp) -> Status {
        let wait_micros = state.wait_micros(now);
        let remaining = u64::from(wait_micros == 0);
        Status::of(1, remaining, cost.into(), admitted, |_| Some(wait_micros))
    }
}

impl MinInterval {
    /// At least this long between two admitted requests; whole microseconds, rounded up.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(interval: Duration) -> Self {
        or_panic(Self::try_new(interval))
    }

    /// At least this long between two admitted requests; whole microseconds, rounded up.
    ///
    /// # Errors
    ///
    /// The interval is shorter than 1 µs or longer than [`Quota::MAX_PERIOD`].
    pub fn try_new(interval: Duration) -> Result<Self, ConfigError> {
        let interval = Quota::try_one_every(interval)?;
        let micros = interval.period_micros();
        let policy = Policy::of_quota("min-interval", interval, "", 1, micros);
        Ok(Self(policy))
    }
}

impl Scripted for MinInterval {
    fn script() -> Script {
        Script::new("min_interval", include_str!("min_interval.lua"))
            .parameters(&["interval"])
            .state(&["free_at"])
            .charged_last()
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.0.window_micros());
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<FreeAt> {
        let [free_at]: [u64; 1] = numbers.try_into().ok()?;
        let longest = at.as_micros() + Quota::MAX_PERIOD.as_micros() as u64;
        (free_at <= longest).then_some(FreeAt(free_at))
    }

    fn numbers(&self, state: &FreeAt, _at: Timestamp, output: &mut dyn FnMut(u64)) {
        output(state.0);
    }
}

impl Described for MinInterval {
    const NAME: &'static str = "min-interval";

    fn fields() -> Vec<Field> {
        vec![Field::new("interval", Kind::Interval, "500ms")]
    }

    fn build(given: &Given) -> Result<Self, String> {
        given.make("interval", |SpanText(interval)| Self::try_new(interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval() -> MinInterval {
        MinInterval::new(Duration::from_micros(10))
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn no_state_is_read_that_no_interval_leaves_behind() {
        let rule = MinInterval::new(Quota::MAX_PERIOD);
        let mut state = rule.fresh(at(7));
        rule.debit(&mut state, 1, at(7));
        assert_eq!(rule.state(at(7), &[state.0]), Some(state));
        assert_eq!(rule.state(at(7), &[state.0 + 1]), None);
    }

    #[test]
    fn a_debit_is_one_request_more_and_one_of_nothing_is_none() {
        let rule = interval();
        let mut state = rule.fresh(at(100));
        rule.debit(&mut state, 0, at(100));
        assert!(rule.judge(&state, 1, at(100)));
        for (units, now, over) in [(1, 100, 110), (70, 105, 115), (0, 110, 115)] {
            rule.debit(&mut state, units, at(now));
            assert_eq!(
                [over - 1, over].map(|now| rule.judge(&state, 1, at(now))),
                [false, true]
            );
        }
    }
}
