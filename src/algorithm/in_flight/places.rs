//! The rule of places for requests in flight: they are held, and never charged.

use crate::{
    algorithm::{Additive, Algorithm, Policy, PolicyId},
    clock::Timestamp,
    decision::{Judgement, PolicyDecision, Status},
};

/// At most `max` places are held. A charge is nothing.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) policy: Policy,
    pub(super) max: u64,
}

/// How many places were taken right after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacesSnapshot {
    taken: u64,
    admitted: bool,
}

impl Additive for Places {
    #[inline]
    fn fits(&self, (): &(), units: u64, _now: Timestamp) -> bool {
        units <= self.max
    }

    #[inline]
    fn snapshot_beside(
        &self,
        (): &(),
        held: u64,
        (_cost, admitted): (u32, bool),
        _now: Timestamp,
    ) -> PlacesSnapshot {
        PlacesSnapshot {
            taken: held,
            admitted,
        }
    }
}

impl Algorithm for Places {
    type State = ();
    type Snapshot = PlacesSnapshot;

    fn judge(&self, (): &(), cost: u32, now: Timestamp) -> bool {
        cost == 0 || self.fits(&(), cost.into(), now)
    }

    fn debit(&self, (): &mut (), _units: u64, _now: Timestamp) {}

    fn refund(&self, (): &mut (), _cost: u32, _now: Timestamp) {}

    fn is_fresh(&self, (): &(), _now: Timestamp) -> bool {
        true
    }

    fn fresh(&self, _at: Timestamp) {}

    fn snapshot(&self, (): &(), cost: u32, admitted: bool, now: Timestamp) -> PlacesSnapshot {
        self.snapshot_beside(&(), 0, (cost, admitted), now)
    }

    fn describe(&self, snapshot: &PlacesSnapshot, tell: &mut dyn FnMut(PolicyDecision)) {
        let judgement = match (snapshot.admitted, self.max) {
            (true, _) => Judgement::Admitted,
            (false, 0) => Judgement::NeverFits,
            (false, _) => Judgement::RefusedUntilOneEnds,
        };
        let status = Status {
            remaining: self.max.saturating_sub(snapshot.taken),
            judgement,
            replenished_after_micros: 0,
            reset_after_micros: 0,
            delay_micros: 0,
        };
        tell(PolicyDecision::in_flight(&self.policy, status));
    }

    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }
}
