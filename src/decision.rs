//! The decision about one request.

use std::{fmt, sync::Arc, time::Duration};

mod few;
mod lazy_status;
mod policy_decision;
mod status;

pub(crate) use few::Few;
pub(crate) use lazy_status::{JudgedCost, LazyStatus};
pub(crate) use policy_decision::Counts;
pub use policy_decision::PolicyDecision;
pub use status::{Judgement, Status};

/// What was decided about one request.
///
/// For a tuple of algorithms it is the decision of all of them together;
/// [`policies`](Self::policies) has that of each member.
///
/// # Example: what an admitted and a refused caller are told
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter, Timestamp};
/// use tollgate::{algorithm::FixedWindow, clock::ManualClock, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::at(Timestamp::from_micros(0));
/// let store = LocalStore::builder().clock(clock).build();
/// let limiter = RateLimiter::new(FixedWindow::new(Quota::per_minute(2)).named("trial"), store);
///
/// let admitted = limiter.check("bob").await?;
/// assert!(admitted.is_admitted());
/// assert_eq!((admitted.policy(), admitted.limit(), admitted.remaining()), ("trial", 2, 1));
///
/// let refused = limiter.check_cost("bob", 2).await?;
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));
///
/// let hopeless = limiter.check_cost("bob", 3).await?;
/// assert!(hopeless.never_fits() && hopeless.retry_after().is_none());
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Decision(
    /// One, also if it is in shadow and decides nothing. None, where every limit of several is in
    /// shadow, or there is no key.
    Few<PolicyDecision>,
);

impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        self.policies() == other.policies()
    }
}

impl Eq for Decision {}

impl Decision {
    /// The decision of a single policy.
    #[inline]
    pub fn of_one(policy: PolicyDecision) -> Self {
        Self(Few::One(policy))
    }

    /// The decision of those of these policies that are not in shadow. That of none is admitted,
    /// without a limit.
    pub(crate) fn of(mut policies: Vec<PolicyDecision>) -> Self {
        policies.retain(|policy| policy.in_shadow().is_none());
        // One alone may never be read.
        if policies.len() > 1 {
            policies.iter_mut().for_each(PolicyDecision::resolve);
        }
        Self(policies.into_iter().collect())
    }

    /// The decision of several policies together: admitted if all of them admit that are not in
    /// shadow.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn of_all(policies: Vec<PolicyDecision>) -> Self {
        assert!(!policies.is_empty(), "at least one policy");
        Self::of(policies)
    }

    /// The same where nobody may wait any more: refused for as long as it would be delayed.
    pub(crate) fn refused_for_its_delay(self) -> Self {
        self.with_each(PolicyDecision::refused_for_its_delay)
    }

    /// The same once it is settled, where the request has held and spent so much.
    pub(crate) fn once_settled(self, held: u32, spent: u32) -> Self {
        self.with_each(|policy| policy.once_settled(held, spent))
    }

    /// The same, as that of a limiter which decides while the store is unavailable.
    pub(crate) fn degraded(mut self) -> Self {
        let policies = match &mut self.0 {
            Few::One(policy) => std::slice::from_mut(policy),
            Few::Several(policies) => Arc::make_mut(policies),
        };
        for policy in policies {
            policy.is_degraded = true;
        }
        self
    }

    fn with_each(self, change: impl Fn(PolicyDecision) -> PolicyDecision) -> Self {
        Self::of(self.policies().iter().cloned().map(change).collect())
    }

    /// Resolves its status once, instead of at each read.
    #[inline]
    pub(crate) fn resolve(&mut self) {
        if let Few::One(policy) = &mut self.0 {
            policy.resolve();
        }
    }

    /// Whether a limiter in this process has decided, because the store was unavailable; always
    /// `false` unless the layer's `on_store_error` has such a limiter. The decision and the
    /// response then describe that limiter, and not the limit whose store is down.
    pub fn is_degraded(&self) -> bool {
        self.binding().is_some_and(|policy| policy.is_degraded)
    }

    /// Whether the request is let through; if not, nothing was charged.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        match &self.0 {
            Few::One(policy) => policy.is_admitted(),
            Few::Several(policies) => policies.iter().all(PolicyDecision::is_admitted),
        }
    }

    /// The most the [binding policy](Self::policy) lets through at once: the quota's units, or the
    /// burst.
    pub fn limit(&self) -> u64 {
        self.binding().map_or(u64::MAX, PolicyDecision::limit)
    }

    /// How many further requests of cost 1 are let through at this same instant.
    pub fn remaining(&self) -> u64 {
        let remaining = self.policies().iter().map(PolicyDecision::remaining);
        remaining.min().unwrap_or(u64::MAX)
    }

    /// How long until the same cost is let through, if nothing else happens till then.
    ///
    /// It is exact: the same cost is refused at every tick before, and admitted then.
    /// `None` if it was admitted, if it [never fits](Self::never_fits), or if nobody knows: it
    /// waits for the end of a request that is [in flight](crate::algorithm::InFlight).
    pub fn retry_after(&self) -> Option<Duration> {
        self.binding()?.retry_after()
    }

    /// Whether the cost is more than can ever be let through at once.
    pub fn never_fits(&self) -> bool {
        self.binding().is_some_and(PolicyDecision::never_fits)
    }

    /// How long until all units are back, if nothing more is charged.
    pub fn reset_after(&self) -> Duration {
        let resets = self.policies().iter().map(PolicyDecision::reset_after);
        resets.max().unwrap_or_default()
    }

    /// How long an admitted request must be delayed; the layer does it by itself.
    pub fn delay(&self) -> Duration {
        if !self.is_admitted() {
            return Duration::ZERO;
        }
        let delays = self.policies().iter().map(PolicyDecision::delay);
        delays.max().unwrap_or_default()
    }

    /// The name of the policy that binds: of an admitted request, the one with the least left; of a
    /// refused one, the one with the longest wait.
    pub fn policy(&self) -> &str {
        self.binding().map_or("none", PolicyDecision::policy)
    }

    /// What each policy decided: one, or each member of a tuple in its order; none where all are in
    /// [shadow](crate::algorithm::Policy::shadow), or where an [`EachOf`](crate::EachOf) has no key
    /// at all.
    pub fn policies(&self) -> &[PolicyDecision] {
        match &self.0 {
            Few::One(policy) if policy.in_shadow().is_some() => &[],
            policies => policies.as_slice(),
        }
    }

    #[inline]
    pub(crate) fn binding(&self) -> Option<&PolicyDecision> {
        // From the last on: of equals the first binds.
        let all = self.policies().iter().rev();
        all.max_by(|a, b| severity(&a.status()).cmp(&severity(&b.status())))
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("is_admitted", &self.is_admitted())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .field("policies", &self.policies())
            .finish()
    }
}

/// Orders policies: refusals first, longest wait; then fewest remaining.
#[inline]
fn severity(status: &Status) -> (u8, u64) {
    match status.judgement {
        Judgement::Admitted => (0, u64::MAX - status.remaining),
        Judgement::RefusedForMicros(micros) => (1, micros),
        Judgement::RefusedUntilOneEnds => (1, u64::MAX),
        Judgement::NeverFits => (2, 0),
    }
}

#[cfg(test)]
mod tests;
