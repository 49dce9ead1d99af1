//! The trait of what a store decides by: one algorithm, or an `EachOf` of several.

use std::time::Duration;

use crate::{
    algorithm::{Algorithm, PolicyId},
    clock::Timestamp,
    decision::{Decision, PolicyDecision},
};

/// An [algorithm](crate::algorithm), or [each of several](crate::EachOf).
///
/// Every [`Algorithm`] is one; the trait is sealed. Its methods are called once a
/// [store](crate::store) has decided.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a rate-limiting algorithm nor an `EachOf` of several",
    label = "not an algorithm",
    note = "use one of `tollgate::algorithm`, such as `TokenBucket::new(Quota::per_second(20))`, a tuple of them, or implement `tollgate::algorithm::Algorithm`"
)]
pub trait Limit: sealed::Sealed + Clone + Send + Sync + 'static {
    /// What the store returns: enough to make the [`Decision`] later.
    type Snapshot: Clone + Send + Sync + 'static;

    /// The keys that it needs: one, or one for each algorithm.
    #[doc(hidden)]
    type Keys;

    /// Whether an admission holds units, to be settled later.
    #[doc(hidden)]
    const SETTLES: bool;

    /// Whether an admission takes a place in flight, to be given back when the request has ended.
    #[doc(hidden)]
    const IN_FLIGHT: bool;

    /// Whether any of the limits is in [shadow](crate::algorithm::Shadow).
    #[doc(hidden)]
    const HAS_SHADOWS: bool;

    /// The id of the policy, which names its buckets: for several keys, one id of all policies.
    fn policies(&self) -> PolicyId;

    /// The names of the policies, for events.
    fn policy_names(&self) -> String;

    /// Makes the decision from a snapshot.
    fn decision_of(&self, snapshot: &Self::Snapshot) -> Decision;

    /// Calls `tell` with each policy in shadow, and whether it would have refused.
    #[doc(hidden)]
    fn shadows_of(&self, snapshot: &Self::Snapshot, tell: &mut dyn FnMut(PolicyDecision, bool));

    /// The snapshot of an admission after its settlement has freed this many units.
    #[doc(hidden)]
    fn freed(&self, snapshot: &Self::Snapshot, units: u32) -> Self::Snapshot;

    /// How long the admitted request must be delayed.
    fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration;
}

/// The keys of an [algorithm](crate::algorithm): one.
#[doc(hidden)]
#[derive(Debug)]
pub struct OneKey(());

/// The keys of [several algorithms](crate::EachOf): one for each.
#[doc(hidden)]
#[derive(Debug)]
pub struct OneKeyForEach<const ALGORITHMS: usize>(());

pub(crate) mod sealed {
    /// Seals `Limit`.
    pub trait Sealed {}
}

impl<A: Algorithm> sealed::Sealed for A {}

impl<A: Algorithm> Limit for A {
    type Snapshot = A::Snapshot;
    type Keys = OneKey;

    const SETTLES: bool = A::SETTLES;
    const IN_FLIGHT: bool = A::IN_FLIGHT;
    const HAS_SHADOWS: bool = A::HAS_SHADOWS;

    #[inline]
    fn policies(&self) -> PolicyId {
        self.policy_id()
    }

    fn policy_names(&self) -> String {
        let at = Timestamp::from_micros(0);
        let fresh = self.snapshot(&self.fresh(at), 0, true, at);
        let mut names = Vec::new();
        self.describe(&fresh, &mut |policy| names.push(policy.policy().to_owned()));
        self.describe_shadows(&fresh, &mut |policy, _| {
            names.push(policy.policy().to_owned())
        });
        names.join(", ")
    }

    #[inline]
    fn decision_of(&self, snapshot: &A::Snapshot) -> Decision {
        self.decision(snapshot)
    }

    fn shadows_of(&self, snapshot: &A::Snapshot, tell: &mut dyn FnMut(PolicyDecision, bool)) {
        self.describe_shadows(snapshot, tell);
    }

    fn freed(&self, snapshot: &A::Snapshot, units: u32) -> A::Snapshot {
        Algorithm::freed(self, snapshot, units)
    }

    #[inline]
    fn delay_of(&self, snapshot: &A::Snapshot) -> Duration {
        self.delay(snapshot)
    }
}
