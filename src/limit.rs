//! What a store decides by: one algorithm, or each of several.

use std::time::Duration;

use crate::{
    algorithm::{Algorithm, PolicyId},
    clock::Timestamp,
    decision::Decision,
};

/// What a request is held to: an [algorithm](crate::algorithm), or [each of
/// several](crate::EachOf).
///
/// Every [`Algorithm`] is one. It is no more than what is asked of the limit once a
/// [store](crate::store) has decided.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate-limiting algorithm",
    label = "not an algorithm",
    note = "use one of `tollgate::algorithm` (`TokenBucket::new(Quota::per_second(20))`, say), a tuple of them, or implement `tollgate::algorithm::Algorithm`",
    note = "for a limit of each of several keys use `tollgate::EachOf((.., ..))`, and for one that is chosen per request `tollgate::choice::by_request(..)`"
)]
pub trait Limit: Clone + Send + Sync + 'static {
    /// What is carried out of the store: enough to say later how the buckets stood at the instant
    /// of the decision.
    type Snapshot: Clone + Send + 'static;

    /// Whose buckets these are: of a limit of several keys, all of them together.
    fn policies(&self) -> PolicyId;

    /// What these policies are called, for people.
    fn policy_names(&self) -> String;

    /// The decision that a snapshot stands for.
    fn decision_of(&self, snapshot: &Self::Snapshot) -> Decision;

    /// How long the admitted request must be held back.
    fn delay_of(&self, snapshot: &Self::Snapshot) -> Duration;
}

impl<A: Algorithm> Limit for A {
    type Snapshot = A::Snapshot;

    #[inline]
    fn policies(&self) -> PolicyId {
        self.policy_id()
    }

    fn policy_names(&self) -> String {
        let at = Timestamp::from_micros(0);
        let fresh = self.snapshot(&self.fresh(at), 0, true, at);
        let mut names = Vec::new();
        self.describe(&fresh, &mut |policy| names.push(policy.policy().to_owned()));
        names.join(", ")
    }

    #[inline(always)]
    fn decision_of(&self, snapshot: &A::Snapshot) -> Decision {
        self.decision(snapshot)
    }

    #[inline(always)]
    fn delay_of(&self, snapshot: &A::Snapshot) -> Duration {
        self.delay(snapshot)
    }
}
