use crate::{
    algorithm::{Additive, Algorithm, JudgedCost, Policy, Script, Scripted, Status},
    clock::Timestamp,
    error::{ConfigError, or_panic},
    quota::Quota,
};

use super::{
    described::{Described, Field, Given, Kind, QUOTA},
    setters::setters,
};

/// Admits a request if the units taken in the running window leave room for its cost; refuses it
/// otherwise.
///
/// Windows start at the multiples of the period since the Unix epoch (a quota per day starts at
/// midnight UTC), or, with [`from_first_request`](Self::from_first_request), when a caller first
/// comes.
///
/// - **Bound**: in any span of one period at most 2n units, a burst on either side of the edge; 2n
///   − 1 with `from_first_request`.
/// - **Memory**: 16 bytes per key.
/// - **Not for** protecting something that cannot bear twice the quota at an edge, where all
///   callers of an aligned window come back at the same instant: use
///   [`TokenBucket`](super::TokenBucket) or [`SlidingWindow`](super::SlidingWindow).
///
/// ![Ten a second: ten on either side of an edge are twenty within a second][fixed_window]
///
/// ![A burst on either side of an edge: a fixed window lets both through; a sliding window, a token
/// bucket and a sliding log do not][double_burst]
///
/// # Example: a new window, a new quota
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::FixedWindow, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(59_000_000));
/// let store = LocalStore::builder().clock(clock.clone()).build();
/// let limiter = RateLimiter::new(FixedWindow::new(Quota::per_minute(2)), store);
///
/// assert!(limiter.check_cost("bob", 2).await?.is_admitted());
/// let refused = limiter.check("bob").await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
///
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(limiter.check("bob").await?.remaining(), 1);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[doc = include_str!("../docs/pictures/fixed_window.md")]
#[doc = include_str!("../docs/pictures/double_burst.md")]
#[derive(Debug, Clone)]
pub struct FixedWindow {
    policy: Policy,
    quota: Quota,
    from_first_request: bool,
}

/// A window and the units taken in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    start: u64,
    used: u64,
}

/// The most units that a counter may have: with any cost added it stays below 2^53.
pub(super) const MAX_UNITS: u64 = (1 << 53) - (1 << 32);

/// The same quota, if a counter may have all of its units.
pub(super) fn countable(quota: Quota) -> Result<Quota, ConfigError> {
    match quota.units() {
        0..=MAX_UNITS => Ok(quota),
        _ => Err(too_large(quota)),
    }
}

pub(super) fn too_large(quota: Quota) -> ConfigError {
    let (units, period) = (quota.units(), quota.period());
    ConfigError::QuotaTooLarge { units, period }
}

impl FixedWindow {
    /// Windows that start at the multiples of the period since the Unix epoch.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(quota: Quota) -> Self {
        or_panic(Self::try_new(quota))
    }

    /// Windows that start at the multiples of the period since the Unix epoch.
    ///
    /// # Errors
    ///
    /// The quota is of more than 2<sup>53</sup> − 2<sup>32</sup> units.
    pub fn try_new(quota: Quota) -> Result<Self, ConfigError> {
        Ok(Self {
            policy: Policy::of_window("fixed-window", countable(quota)?, ""),
            quota,
            from_first_request: false,
        })
    }

    /// Opens a caller's window at its first request, for one period.
    #[must_use]
    pub fn from_first_request(mut self) -> Self {
        let policy = Policy::of_window("window-from-first", self.quota, "");
        self.policy = policy.like(&self.policy);
        self.from_first_request = true;
        self
    }

    /// The window that is running now: this one until it is over.
    #[inline]
    fn running(&self, window: &Window, now: Timestamp) -> Window {
        let now = now.as_micros();
        if window.used > 0 && now < window.start + self.quota.period_micros() {
            return *window;
        }
        let start = self.start_at(now.max(window.start));
        Window { start, used: 0 }
    }

    /// The start of the window that `micros` is in, if nobody has opened one.
    fn start_at(&self, micros: u64) -> u64 {
        match self.from_first_request {
            true => micros,
            false => micros - micros % self.quota.period_micros(),
        }
    }
}

setters!(additive FixedWindow, policy);

impl Algorithm for FixedWindow {
    type State = Window;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline]
    fn judge(&self, state: &Window, cost: u32, now: Timestamp) -> bool {
        cost == 0 || self.fits(state, cost.into(), now)
    }

    #[inline]
    fn debit(&self, state: &mut Window, units: u64, now: Timestamp) {
        *state = self.running(state, now);
        state.used = state.used.saturating_add(units).min(MAX_UNITS);
    }

    fn refund(&self, state: &mut Window, cost: u32, now: Timestamp) {
        *state = self.running(state, now);
        state.used = state.used.saturating_sub(cost.into());
    }

    #[inline]
    fn is_fresh(&self, state: &Window, now: Timestamp) -> bool {
        state.start <= now.as_micros() && self.running(state, now).used == 0
    }

    fn fresh(&self, at: Timestamp) -> Window {
        let start = self.start_at(at.as_micros());
        Window { start, used: 0 }
    }

    #[inline]
    fn status(&self, state: &Window, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.status_beside(state, 0, (cost, admitted), now)
    }
}

impl Additive for FixedWindow {
    #[inline]
    fn fits(&self, state: &Window, units: u64, now: Timestamp) -> bool {
        let used = self.running(state, now).used;
        used.saturating_add(units) <= self.quota.units()
    }

    #[inline]
    fn status_beside(&self, state: &Window, held: u64, cost: JudgedCost, now: Timestamp) -> Status {
        let Window { start, used } = self.running(state, now);
        let units = self.quota.units();
        let remaining = units.saturating_sub(used.saturating_add(held));
        let until_next = start + self.quota.period_micros() - now.as_micros();
        let (cost, admitted) = cost;
        Status::of(units, remaining, cost.into(), admitted, |wanted| {
            (wanted <= units).then_some(until_next)
        })
    }
}

impl Scripted for FixedWindow {
    fn script() -> Script {
        Script::new("fixed_window", include_str!("fixed_window.lua"))
            .parameters(&["units", "period", "opens_at_first"])
            .state(&["start", "used"])
            .with(|member| member.can_be_leased = true)
    }

    fn parameters(&self, output: &mut dyn FnMut(u64)) {
        output(self.quota.units());
        output(self.quota.period_micros());
        output(self.from_first_request.into());
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Window> {
        let [start, used]: [u64; 2] = numbers.try_into().ok()?;
        let is_a_start = start <= at.as_micros() && self.start_at(start) == start;
        (is_a_start && used <= MAX_UNITS).then_some(Window { start, used })
    }

    fn numbers(&self, state: &Window, at: Timestamp, output: &mut dyn FnMut(u64)) {
        let Window { start, used } = self.running(state, at);
        output(start);
        output(used);
    }
}

impl Described for FixedWindow {
    const NAME: &'static str = "fixed-window";

    fn fields() -> Vec<Field> {
        let from_first = Field::new("from-first-request", Kind::Flag, "true");
        vec![QUOTA, from_first.with_default("false")]
    }

    fn build(given: &Given) -> Result<Self, String> {
        let rule = given.make("quota", Self::try_new)?;
        Ok(match given.get("from-first-request")? {
            Some(true) => rule.from_first_request(),
            _ => rule,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::{SlidingLog, SlidingWindow};

    #[test]
    fn so_many_units_are_counted_and_no_more() {
        let quota = |units| Quota::new(units, Duration::from_micros(1));
        // A Lua number holds them with a cost of any size more.
        let is_exact = |number: u64| number as f64 as u64 == number;
        let with_a_cost = MAX_UNITS + u64::from(u32::MAX);
        assert!(is_exact(with_a_cost) && !is_exact(with_a_cost + 2));
        assert!(FixedWindow::try_new(quota(MAX_UNITS)).is_ok());
        assert!(SlidingLog::try_new(quota(MAX_UNITS)).is_ok());
        assert!(SlidingWindow::try_new(quota(MAX_UNITS)).is_ok());
        for units in [MAX_UNITS + 1, u64::MAX] {
            assert!(FixedWindow::try_new(quota(units)).is_err());
            assert!(SlidingLog::try_new(quota(units)).is_err());
            assert!(SlidingWindow::try_new(quota(units)).is_err());
        }
    }
}
