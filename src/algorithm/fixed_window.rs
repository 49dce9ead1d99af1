use std::cmp::max;

use crate::{
    algorithm::{Additive, Algorithm, Policy, Script, Scripted, Status},
    clock::Timestamp,
    error::ConfigError,
    policy::Span,
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
    windows: Windows,
}

/// When windows begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Windows {
    period_micros: u64,
    opens: Opens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    AtMultiplesOfThePeriod,
    AtTheFirstRequest,
}

/// A window and the units taken in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    start: u64,
    used: u64,
}

impl FixedWindow {
    /// Whether the units taken in the running window stay within the quota with this cost.
    #[inline]
    fn has_room(&self, running: Window, cost: u32) -> bool {
        cost == 0 || running.used + u64::from(cost) <= self.quota.units()
    }
}

impl Windows {
    /// The window that is running now: this one until it is over.
    #[inline]
    fn running(&self, window: &Window, now: Timestamp) -> Window {
        let now = now.as_micros();
        let is_open = window.used > 0 || self.opens == Opens::AtMultiplesOfThePeriod;
        if is_open && now < window.start + self.period_micros {
            return *window;
        }
        let start = self.start_at(max(now, window.start));
        Window { start, used: 0 }
    }

    /// The start of the window that `micros` is in, if nobody has opened one.
    #[inline]
    fn start_at(&self, micros: u64) -> u64 {
        match self.opens {
            Opens::AtMultiplesOfThePeriod => micros - micros % self.period_micros,
            Opens::AtTheFirstRequest => micros,
        }
    }
}

setters!(FixedWindow, policy);

impl Algorithm for FixedWindow {
    type State = Window;

    #[inline]
    fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline]
    fn judge(&self, state: &Window, cost: u32, now: Timestamp) -> bool {
        self.has_room(self.windows.running(state, now), cost)
    }

    #[inline]
    fn debit(&self, state: &mut Window, units: u64, now: Timestamp) {
        let mut window = self.windows.running(state, now);
        window.used = window.used.saturating_add(units).min(MAX_UNITS);
        *state = window;
    }

    fn refund(&self, state: &mut Window, cost: u32, now: Timestamp) {
        let mut window = self.windows.running(state, now);
        window.used = window.used.saturating_sub(cost.into());
        *state = window;
    }

    #[inline]
    fn is_fresh(&self, state: &Window, now: Timestamp) -> bool {
        state.start <= now.as_micros() && self.windows.running(state, now).used == 0
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Window {
        let start = self.windows.start_at(at.as_micros());
        Window { start, used: 0 }
    }

    #[inline]
    fn status(&self, state: &Window, cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.status_of(self.windows.running(state, now), (cost, admitted), now)
    }
}

impl FixedWindow {
    #[inline]
    fn status_of(&self, window: Window, (cost, admitted): (u32, bool), now: Timestamp) -> Status {
        let units = self.quota.units();
        let remaining = units.saturating_sub(window.used);
        let until_next = window.start + self.windows.period_micros - now.as_micros();
        Status::of(units, remaining, cost.into(), admitted, |wanted| {
            match wanted <= remaining {
                true => Some(0),
                false => (wanted <= units).then_some(until_next),
            }
        })
    }
}

/// The most units that a counter may have: with any cost added it stays below 2^53.
pub(super) const MAX_UNITS: u64 = (1 << 53) - (1 << 32);

impl FixedWindow {
    /// Windows that start at the multiples of the period since the Unix epoch.
    ///
    /// # Panics
    ///
    /// Where [`try_new`](Self::try_new) fails, with its error as the message.
    #[track_caller]
    pub fn new(quota: Quota) -> Self {
        Self::try_new(quota).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Windows that start at the multiples of the period since the Unix epoch.
    ///
    /// # Errors
    ///
    /// The quota is of more than 2<sup>53</sup> − 2<sup>32</sup> units.
    pub fn try_new(quota: Quota) -> Result<Self, ConfigError> {
        if quota.units() > MAX_UNITS {
            return Err(ConfigError::QuotaTooLarge {
                units: quota.units(),
                period: quota.period(),
            });
        }
        let policy = Self::policy("fixed-window", quota);
        Ok(Self::opening(policy, quota, Opens::AtMultiplesOfThePeriod))
    }

    fn opening(policy: Policy, quota: Quota, opens: Opens) -> Self {
        let windows = Windows {
            period_micros: quota.period_micros(),
            opens,
        };
        Self {
            policy,
            quota,
            windows,
        }
    }

    /// Opens a caller's window at its first request, for one period.
    #[must_use]
    pub fn from_first_request(self) -> Self {
        let policy = Self::policy("window-from-first", self.quota);
        let policy = policy.named_like(&self.policy);
        Self::opening(policy, self.quota, Opens::AtTheFirstRequest)
    }

    /// Holds each request's cost while it runs, and charges what it has spent: see
    /// [`Settled`](super::Settled).
    #[must_use]
    pub const fn settled(self) -> super::Settled<Self> {
        super::Settled::new(self)
    }

    fn policy(algorithm: &str, quota: Quota) -> Policy {
        let period = quota.period_micros();
        Policy::of_quota(algorithm, quota, "", quota.units(), period)
            .of_shape(format_args!("{algorithm}-{}", Span(period)))
    }
}

impl Additive for FixedWindow {
    #[inline]
    fn fits(&self, state: &Window, units: u64, now: Timestamp) -> bool {
        let used = self.windows.running(state, now).used;
        used.saturating_add(units) <= self.quota.units()
    }

    fn status_beside(
        &self,
        state: &Window,
        held: u64,
        cost: (u32, bool),
        now: Timestamp,
    ) -> Status {
        let mut window = self.windows.running(state, now);
        window.used = window.used.saturating_add(held).min(MAX_UNITS);
        self.status_of(window, cost, now)
    }
}

impl Scripted for FixedWindow {
    fn script() -> Script {
        Script::new("fixed_window", include_str!("fixed_window.lua"))
            .parameters(&["units", "period", "opens_at_first"])
            .state(&["start", "used"])
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.quota.units());
        tell(self.windows.period_micros);
        tell((self.windows.opens == Opens::AtTheFirstRequest).into());
    }

    fn state(&self, at: Timestamp, numbers: &[u64]) -> Option<Window> {
        let &[start, used] = numbers else {
            return None;
        };
        let is_aligned = match self.windows.opens {
            Opens::AtMultiplesOfThePeriod => start.is_multiple_of(self.windows.period_micros),
            Opens::AtTheFirstRequest => true,
        };
        let makes_sense = is_aligned && start <= at.as_micros() && used <= MAX_UNITS;
        makes_sense.then_some(Window { start, used })
    }

    fn numbers(&self, state: &Window, at: Timestamp, tell: &mut dyn FnMut(u64)) {
        let Window { start, used } = self.windows.running(state, at);
        tell(start);
        tell(used);
    }
}

impl Described for FixedWindow {
    const NAME: &'static str = "fixed-window";

    fn fields() -> Vec<Field> {
        let from_first = Field::optional("from-first-request", Kind::FLAG, "true", "false");
        vec![QUOTA, from_first]
    }

    fn build(given: &Given) -> Result<Self, String> {
        let rule = given.make("quota", Self::try_new)?;
        let rule = match given.get("from-first-request") {
            Some(true) => rule.from_first_request(),
            _ => rule,
        };
        given.name(rule, Self::try_named)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::SlidingLog;

    #[test]
    fn so_many_units_are_counted_and_no_more() {
        let quota = |units| Quota::new(units, Duration::from_micros(1));
        // A Lua number holds them with a cost of any size more.
        let is_exact = |number: u64| number as f64 as u64 == number;
        let with_a_cost = MAX_UNITS + u64::from(u32::MAX);
        assert!(is_exact(with_a_cost) && !is_exact(with_a_cost + 2));
        assert!(FixedWindow::try_new(quota(MAX_UNITS)).is_ok());
        assert!(SlidingLog::try_new(quota(MAX_UNITS)).is_ok());
        for units in [MAX_UNITS + 1, u64::MAX] {
            assert!(FixedWindow::try_new(quota(units)).is_err());
            assert!(SlidingLog::try_new(quota(units)).is_err());
        }
    }
}
