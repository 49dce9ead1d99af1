//! What one policy has decided about one request.

use std::{fmt, time::Duration};

use crate::policy::{Policy, PolicyName};

use super::{Judgement, LazyStatus, Status};

/// What one policy decided; a tuple of algorithms has one for each member.
#[derive(Clone)]
pub struct PolicyDecision {
    policy: PolicyName,
    limit: u64,
    window_micros: u64,
    status: LazyStatus,
    counts: Counts,
    pub(super) is_degraded: bool,
    /// Of one in [shadow](Policy::shadow), whether it would have refused.
    in_shadow: Option<bool>,
}

/// What the units of a policy are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    Units,
    /// They are held until they are [settled](crate::algorithm::Settled).
    HeldUnits,
    /// Each request holds one.
    HeldRequests,
    /// [Requests in flight](crate::algorithm::InFlight).
    InFlight,
}

impl PolicyDecision {
    /// What this policy decided, by its status.
    #[inline]
    pub fn new(policy: &Policy, status: Status) -> Self {
        Self::lazy(policy, LazyStatus::Known(status))
    }

    #[inline]
    pub(crate) fn lazy(policy: &Policy, status: LazyStatus) -> Self {
        Self {
            policy: policy.kept_name().clone(),
            limit: policy.limit(),
            window_micros: policy.window_micros(),
            status,
            counts: Counts::Units,
            is_degraded: false,
            in_shadow: policy.is_in_shadow().then(|| status.would_refuse()),
        }
    }

    /// Its status, which is worked out if it is not known yet.
    #[inline]
    pub(crate) fn status(&self) -> Status {
        self.status.resolve(self.limit)
    }

    #[must_use]
    fn with_status(self, status: Status) -> Self {
        let status = LazyStatus::Known(status);
        Self { status, ..self }
    }

    /// Works its status out once, instead of at each read.
    #[inline]
    pub(super) fn resolve(&mut self) {
        self.status = LazyStatus::Known(self.status());
    }

    /// The same of a policy that counts this.
    pub(crate) fn counting(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }

    #[inline]
    pub(crate) fn in_shadow(&self) -> Option<bool> {
        self.in_shadow
    }

    /// The name of the policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The same once it is settled, where its request has held and spent so much.
    pub(super) fn once_settled(self, held: u32, spent: u32) -> Self {
        let (held, spent) = match self.counts {
            Counts::HeldUnits => (held, spent),
            Counts::HeldRequests => (held.min(1), spent.min(1)),
            Counts::Units | Counts::InFlight => (0, 0),
        };
        if held == spent {
            return self;
        }
        let mut status = self.status();
        let remaining = status.remaining.saturating_add(held.into());
        status.remaining = remaining.saturating_sub(spent.into()).min(self.limit);
        if status.remaining == self.limit {
            (status.replenished_after_micros, status.reset_after_micros) = (0, 0);
        }
        self.with_status(status)
    }

    /// The same where nobody may wait any more: what would be delayed is refused for as long. What
    /// is not delayed stays as it is.
    pub(super) fn refused_for_its_delay(self) -> Self {
        let status = self.status();
        let delay_micros = status.delay_micros;
        if delay_micros == 0 {
            return self;
        }
        self.with_status(Status {
            remaining: 0,
            judgement: Judgement::RefusedForMicros(delay_micros),
            replenished_after_micros: delay_micros,
            delay_micros: 0,
            ..status
        })
    }

    /// Whether both are of one policy with the same numbers.
    pub(crate) fn is_of_the_same_policy(&self, other: &Self) -> bool {
        (self.limit, self.window_micros) == (other.limit, other.window_micros)
            && self.policy == other.policy
    }

    /// Whether this policy alone lets the request through.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        self.status.is_admitted()
    }

    /// The most this policy lets through at once: the quota's units, or the burst.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How long it takes to win the limit back.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_micros)
    }

    /// Whether its units are requests in flight.
    pub(crate) fn counts_in_flight(&self) -> bool {
        self.counts == Counts::InFlight
    }

    /// How many further units this policy lets through at this instant.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.status().remaining
    }

    /// How long until this policy lets the same cost through; `None` if it does, or never will, or
    /// if nobody knows, as of requests [in flight](crate::algorithm::InFlight).
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.status().judgement {
            Judgement::RefusedForMicros(micros) => Some(Duration::from_micros(micros)),
            Judgement::Admitted | Judgement::RefusedUntilOneEnds | Judgement::NeverFits => None,
        }
    }

    /// Whether the cost is more than this policy can ever let through at once.
    pub fn never_fits(&self) -> bool {
        self.status().judgement == Judgement::NeverFits
    }

    /// How long until more than [`remaining`](Self::remaining) units are let through; zero if all
    /// are there.
    #[inline]
    pub fn replenished_after(&self) -> Duration {
        Duration::from_micros(self.status().replenished_after_micros)
    }

    /// How long until all units are back, if nothing more is charged.
    #[inline]
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.status().reset_after_micros)
    }

    /// How long an admitted request must be delayed.
    pub fn delay(&self) -> Duration {
        self.status.delay(self.limit)
    }
}

impl PartialEq for PolicyDecision {
    fn eq(&self, other: &Self) -> bool {
        self.is_of_the_same_policy(other) && self.status() == other.status()
    }
}

impl Eq for PolicyDecision {}

impl fmt::Debug for PolicyDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyDecision")
            .field("policy", &self.policy())
            .field("limit", &self.limit())
            .field("window", &self.window())
            .field("status", &self.status())
            .finish()
    }
}
