//! What was decided, and what it means for the caller.

use std::{fmt, time::Duration};

use smol_str::SmolStr;

use crate::policy::Policy;

/// How one policy stands at one instant, in whole microseconds and units.
///
/// An algorithm fills it in; a [`PolicyDecision`] is read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How many further units are admitted at this instant, one by one.
    pub remaining: u64,
    /// What it said to the cost it was asked about.
    pub outcome: Outcome,
    /// How long until `remaining` is larger; zero if it is all there.
    pub replenished_after_micros: u64,
    /// How long until the state says no more than a fresh one; zero if it does.
    pub reset_after_micros: u64,
    /// How long an admitted request must be held back.
    pub delay_micros: u64,
}

impl Standing {
    /// How a policy stands that lets through at most `limit` units at once, has `remaining` of them
    /// left, and was asked about `cost`.
    ///
    /// `wait` tells after how many microseconds a number of units is let through: 0 if it is now, `None` if never.
    #[inline(always)]
    pub fn of(
        limit: u64,
        remaining: u64,
        cost: u64,
        admitted: bool,
        wait: impl Fn(u64) -> Option<u64>,
    ) -> Self {
        let outcome = match admitted {
            true => Outcome::Admitted,
            false => wait(cost).map_or(Outcome::NeverFits, Outcome::RefusedForMicros),
        };
        let (missing, next) = (remaining < limit, remaining.saturating_add(1));
        let when = |units| if missing { wait(units).unwrap_or(0) } else { 0 };
        Self {
            remaining,
            outcome,
            replenished_after_micros: match outcome {
                // Mostly one unit is refused where none is left, and waits for the same.
                Outcome::RefusedForMicros(micros) if missing && cost == next => micros,
                _ => when(next),
            },
            reset_after_micros: when(limit),
            delay_micros: 0,
        }
    }
}

/// What one policy says to one cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is let through.
    Admitted,
    /// It is let through after so many microseconds, if nothing else happens till then.
    RefusedForMicros(u64),
    /// It is more than can ever be let through at once.
    NeverFits,
}

/// What one policy decided; a tuple of algorithms has one for each member.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    policy: SmolStr,
    limit: u64,
    window_micros: u64,
    standing: Standing,
}

impl PolicyDecision {
    /// What this policy decided, from how it stands.
    #[inline(always)]
    pub fn new(policy: &Policy, standing: Standing) -> Self {
        Self {
            policy: policy.interned_name().clone(),
            limit: policy.limit(),
            window_micros: policy.window_micros(),
            standing,
        }
    }

    /// The name of the policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Whether both are of one policy with the same numbers.
    pub(crate) fn is_of_the_same_policy(&self, other: &Self) -> bool {
        (self.limit, self.window_micros) == (other.limit, other.window_micros)
            && self.policy == other.policy
    }

    /// Whether this policy alone lets the request through.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        self.standing.outcome == Outcome::Admitted
    }

    /// The most this policy lets through at once: the quota's units, or the burst.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long it takes to win the limit back.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_micros)
    }

    /// How many further units this policy lets through at this instant.
    pub fn remaining(&self) -> u64 {
        self.standing.remaining
    }

    /// How long until this policy lets the same cost through; `None` if it does, or never will.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.standing.outcome {
            Outcome::RefusedForMicros(micros) => Some(Duration::from_micros(micros)),
            Outcome::Admitted | Outcome::NeverFits => None,
        }
    }

    /// Whether the cost is more than this policy can ever let through at once.
    pub fn never_fits(&self) -> bool {
        self.standing.outcome == Outcome::NeverFits
    }

    /// How long until more than [`remaining`](Self::remaining) units are let through; zero if all are there.
    pub fn replenished_after(&self) -> Duration {
        Duration::from_micros(self.standing.replenished_after_micros)
    }

    /// How long until the state is as good as fresh.
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.standing.reset_after_micros)
    }

    /// How long an admitted request must be held back.
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.standing.delay_micros)
    }
}

impl fmt::Debug for PolicyDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyDecision")
            .field("policy", &self.policy())
            .field("is_admitted", &self.is_admitted())
            .field("limit", &self.limit())
            .field("window", &self.window())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("never_fits", &self.never_fits())
            .field("replenished_after", &self.replenished_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .finish()
    }
}

/// What was decided about one request.
///
/// Of a tuple of algorithms it tells what all of them together mean for the caller; what each
/// member said is in [`policies`](Self::policies).
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
#[derive(Clone, PartialEq, Eq)]
pub struct Decision(Policies);

#[derive(Clone, PartialEq, Eq)]
enum Policies {
    One(PolicyDecision),
    Several(Box<Several>),
}

#[derive(Clone, PartialEq, Eq)]
struct Several {
    binding: usize,
    /// What all of them together let through and ask for.
    remaining: u64,
    reset_after_micros: u64,
    delay_micros: u64,
    policies: Vec<PolicyDecision>,
}

impl Decision {
    /// The decision of a single policy.
    #[inline(always)]
    pub fn of_one(policy: PolicyDecision) -> Self {
        Self(Policies::One(policy))
    }

    /// The decision of several policies together: admitted if all of them admit.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn of_all(policies: Vec<PolicyDecision>) -> Self {
        let largest = |of: fn(&Standing) -> u64| {
            let values = policies.iter().map(|policy| of(&policy.standing));
            values.max().unwrap_or(0)
        };
        let remaining = policies.iter().map(PolicyDecision::remaining).min();
        let is_admitted = policies.iter().all(PolicyDecision::is_admitted);
        Self(Policies::Several(Box::new(Several {
            binding: binding(&policies),
            remaining: remaining.expect("at least one policy"),
            reset_after_micros: largest(|standing| standing.reset_after_micros),
            delay_micros: match is_admitted {
                true => largest(|standing| standing.delay_micros),
                false => 0,
            },
            policies,
        })))
    }

    /// Whether the request is let through; if not, nothing was charged.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        // One that refuses binds those that do not.
        self.binding().is_admitted()
    }

    /// The most the [binding policy](Self::policy) lets through at once: the quota's units, or the burst.
    pub fn limit(&self) -> u64 {
        self.binding().limit()
    }

    /// How many further requests of cost 1 are let through at this same instant.
    pub fn remaining(&self) -> u64 {
        match &self.0 {
            Policies::One(policy) => policy.remaining(),
            Policies::Several(several) => several.remaining,
        }
    }

    /// How long until the same cost is let through, if nothing else happens till then.
    ///
    /// It is exact: the same cost is refused at every tick before, and admitted then.
    /// `None` if it was admitted, or if it [never fits](Self::never_fits).
    pub fn retry_after(&self) -> Option<Duration> {
        self.binding().retry_after()
    }

    /// Whether the cost is more than can ever be let through at once.
    pub fn never_fits(&self) -> bool {
        self.binding().never_fits()
    }

    /// How long until the state is as good as fresh.
    pub fn reset_after(&self) -> Duration {
        match &self.0 {
            Policies::One(policy) => policy.reset_after(),
            Policies::Several(several) => Duration::from_micros(several.reset_after_micros),
        }
    }

    /// How long an admitted request must be held back; the layer does it by itself.
    pub fn delay(&self) -> Duration {
        match &self.0 {
            Policies::One(policy) => policy.delay(),
            Policies::Several(several) => Duration::from_micros(several.delay_micros),
        }
    }

    /// The name of the policy that binds: of an admitted request, the one with the least left; of a
    /// refused one, the one with the longest wait.
    pub fn policy(&self) -> &str {
        self.binding().policy()
    }

    /// What each policy decided: one, or each member of a tuple in its order.
    pub fn policies(&self) -> &[PolicyDecision] {
        match &self.0 {
            Policies::One(policy) => std::slice::from_ref(policy),
            Policies::Several(several) => &several.policies,
        }
    }

    #[inline]
    pub(crate) fn binding(&self) -> &PolicyDecision {
        match &self.0 {
            Policies::One(policy) => policy,
            Policies::Several(several) => &several.policies[several.binding],
        }
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

/// The first of the policies with the longest wait, or if none refuses, with the least left.
fn binding(policies: &[PolicyDecision]) -> usize {
    let severity = |policy: &PolicyDecision| match policy.standing.outcome {
        Outcome::Admitted => (0, u64::MAX - policy.standing.remaining),
        Outcome::RefusedForMicros(micros) => (1, micros),
        Outcome::NeverFits => (2, 0),
    };
    let mut binding = 0;
    for (index, policy) in policies.iter().enumerate() {
        if severity(policy) > severity(&policies[binding]) {
            binding = index;
        }
    }
    binding
}
