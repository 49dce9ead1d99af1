use std::cmp::max;

use crate::{
    algorithm::{Algorithm, Numbers, Policy, PolicyId, Script, Scripted},
    clock::Timestamp,
    decision::{Decision, PolicyDecision, Standing},
    error::ConfigError,
    quota::Quota,
};

use super::word::Word;

/// Admits a request if the units taken in the running window leave room for its cost; refuses it otherwise.
///
/// Windows start at the multiples of the period since the Unix epoch (a quota per day starts at midnight
/// UTC), or, with [`from_first_request`](Self::from_first_request), when a caller first comes.
///
/// - **Bound**: in any span of one period at most 2n units, a burst on either side of the edge;
///   2n − 1 with `from_first_request`.
/// - **Memory**: 16 bytes per key.
/// - **Not for** protecting something that cannot bear twice the quota at an edge, where all callers of
///   an aligned window come back at the same instant: use [`TokenBucket`](super::TokenBucket) or
///   [`SlidingWindow`](super::SlidingWindow).
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
#[derive(Debug, Clone)]
pub struct FixedWindow {
    policy: Policy,
    quota: Quota,
    opens: Opens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    AtMultiplesOfThePeriod,
    AtTheFirstRequest,
}

/// The most units that a counter takes without ever passing 2^53, whatever is added at once.
pub(super) const MOST_UNITS: u64 = (1 << 53) - (1 << 32);

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
        if quota.units() > MOST_UNITS {
            return Err(ConfigError::QuotaTooLarge {
                units: quota.units(),
                period: quota.period(),
            });
        }
        Ok(Self {
            policy: Self::policy("fixed-window", quota),
            quota,
            opens: Opens::AtMultiplesOfThePeriod,
        })
    }

    /// Opens a caller's window at its first request, for one period.
    #[must_use]
    pub fn from_first_request(self) -> Self {
        let policy = Self::policy("window-from-first", self.quota);
        Self {
            policy: policy.named_like(&self.policy),
            opens: Opens::AtTheFirstRequest,
            ..self
        }
    }

    /// Gives the policy a name of its own, under which it keeps its buckets when its numbers change.
    ///
    /// # Panics
    ///
    /// Where [`try_named`](Self::try_named) fails, with its error as the message.
    #[must_use]
    #[track_caller]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.try_named(name)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Gives the policy a name of its own, under which it keeps its buckets when its numbers change.
    ///
    /// # Errors
    ///
    /// The name is not 1 to 64 of the characters `A-Z a-z 0-9 _ . -`.
    pub fn try_named(mut self, name: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.policy = self.policy.named(name)?;
        Ok(self)
    }

    fn policy(algorithm: &str, quota: Quota) -> Policy {
        Policy::of_quota(algorithm, quota, "", quota.units(), quota.period_micros())
    }

    /// The start of the window that `micros` is in, if nobody has opened one.
    #[inline]
    fn start_at(&self, micros: u64) -> u64 {
        match self.opens {
            Opens::AtMultiplesOfThePeriod => micros - micros % self.quota.period_micros(),
            Opens::AtTheFirstRequest => micros,
        }
    }

    /// The window that is running now: the state's own until it is over.
    #[inline]
    fn running(&self, state: &Window, now: Timestamp) -> Window {
        let now = now.as_micros();
        let is_open = state.used() > 0 || self.opens == Opens::AtMultiplesOfThePeriod;
        if is_open && now < state.start() + self.quota.period_micros() {
            return *state;
        }
        Window::new(self.start_at(max(now, state.start())), 0)
    }

    #[inline(always)]
    fn told(&self, snapshot: &WindowSnapshot) -> PolicyDecision {
        let (start, used) = (snapshot.window.start(), snapshot.window.used());
        let units = self.quota.units();
        let remaining = units.saturating_sub(used);
        let until_next = start + self.quota.period_micros() - snapshot.now.as_micros();
        let (cost, admitted) = (u64::from(snapshot.cost), snapshot.admitted);
        let standing = Standing::of(units, remaining, cost, admitted, |wanted| {
            match wanted <= remaining {
                true => Some(0),
                false => (wanted <= units).then_some(until_next),
            }
        });
        PolicyDecision::new(&self.policy, standing)
    }
}

/// A window and the units taken in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    start: Word,
    used: Word,
}

impl Window {
    #[inline]
    fn new(start: u64, used: u64) -> Self {
        let [start, used] = [start, used].map(Word::new);
        Self { start, used }
    }

    #[inline]
    fn start(&self) -> u64 {
        self.start.get()
    }

    #[inline]
    fn used(&self) -> u64 {
        self.used.get()
    }
}

/// A window as it was right after a decision.
#[derive(Debug, Clone, Copy)]
pub struct WindowSnapshot {
    window: Window,
    now: Timestamp,
    cost: u32,
    admitted: bool,
}

impl Algorithm for FixedWindow {
    type State = Window;
    type Snapshot = WindowSnapshot;

    #[inline]
    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }

    #[inline]
    fn numbers(&self) -> Numbers {
        self.policy.numbers()
    }

    #[inline]
    fn fresh(&self, at: Timestamp) -> Window {
        Window::new(self.start_at(at.as_micros()), 0)
    }

    #[inline]
    fn settle(&self, state: &mut Window, now: Timestamp) {
        let now = now.as_micros();
        if state.start() > now + self.quota.period_micros() {
            *state = Window::new(self.start_at(now), state.used());
        }
    }

    #[inline]
    fn judge(&self, state: &Window, cost: u32, now: Timestamp) -> bool {
        cost == 0 || self.running(state, now).used() + u64::from(cost) <= self.quota.units()
    }

    #[inline]
    fn charge(&self, state: &mut Window, cost: u32, now: Timestamp) {
        let window = self.running(state, now);
        *state = Window::new(window.start(), window.used() + u64::from(cost));
    }

    fn refund(&self, state: &mut Window, cost: u32, now: Timestamp) {
        let window = self.running(state, now);
        let used = window.used().saturating_sub(u64::from(cost));
        *state = Window::new(window.start(), used);
    }

    #[inline]
    fn is_fresh(&self, state: &Window, now: Timestamp) -> bool {
        state.start() <= now.as_micros() && self.running(state, now).used() == 0
    }

    #[inline]
    fn snapshot(
        &self,
        state: &Window,
        cost: u32,
        admitted: bool,
        now: Timestamp,
    ) -> WindowSnapshot {
        WindowSnapshot {
            window: self.running(state, now),
            now,
            cost,
            admitted,
        }
    }

    #[inline]
    fn describe(&self, snapshot: &WindowSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(self.told(snapshot));
    }

    #[inline(always)]
    fn decision(&self, snapshot: &WindowSnapshot) -> Decision {
        Decision::of_one(self.told(snapshot))
    }
}

impl Scripted for FixedWindow {
    fn script() -> Script {
        Script::new("fixed", include_str!("fixed_window.lua"))
            .parameters(&["units", "period", "opens_at_first"])
            .state(&["start", "used"])
    }

    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.quota.units());
        tell(self.quota.period_micros());
        tell(u64::from(self.opens == Opens::AtTheFirstRequest));
    }

    fn state(&self, numbers: &[u64]) -> Option<Window> {
        match *numbers {
            [start, used] => Some(Window::new(start, used)),
            _ => None,
        }
    }
}
