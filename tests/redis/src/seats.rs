//! A rule of one's own that counts requests in flight.

use std::time::Duration;

use tollgate::{
    PolicyDecision, Timestamp,
    algorithm::{
        Additive, Algorithm, Judgement, Policy, PolicyId, Script, ScriptReply, Scripted, Status,
    },
};

/// At most so many seats of a key are taken; each request takes as many as this.
#[derive(Debug, Clone)]
pub struct Seats {
    policy: Policy,
    seats: u64,
    of_each: u64,
}

const SEATS: &str = "\
--- judge
m.fits = cost * m.of_each <= m.seats
--- capacity
m.capacity = math.floor(m.seats / m.of_each)
--- expire
m.expires_at = 0
--- reply
m.taken = 0
--- beside
m.taken = held
";

impl Seats {
    /// A rule of so many seats, where each request takes so many.
    pub fn new(seats: u64, of_each: u64) -> Self {
        let policy = Policy::new("seats", &[seats / of_each, of_each], Duration::ZERO);
        Self {
            policy: policy.named("seats").unwrap(),
            seats,
            of_each,
        }
    }
}

impl Algorithm for Seats {
    type State = ();
    type Snapshot = Status;
    fn policy_id(&self) -> PolicyId {
        self.policy.id()
    }
    fn fresh(&self, _at: Timestamp) {}
    fn mend(&self, (): &mut (), _now: Timestamp) {}
    fn judge(&self, (): &(), cost: u32, now: Timestamp) -> bool {
        self.fits(&(), cost.into(), now)
    }
    fn charge(&self, (): &mut (), _cost: u32, _now: Timestamp) {}
    fn refund(&self, (): &mut (), _cost: u32, _now: Timestamp) {}
    fn is_fresh(&self, (): &(), _now: Timestamp) -> bool {
        true
    }
    fn snapshot(&self, (): &(), cost: u32, admitted: bool, now: Timestamp) -> Status {
        self.snapshot_beside(&(), 0, (cost, admitted), now)
    }
    fn describe(&self, status: &Status, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(PolicyDecision::in_flight(&self.policy, *status));
    }
}

impl Additive for Seats {
    fn fits(&self, (): &(), requests: u64, _now: Timestamp) -> bool {
        requests <= self.seats / self.of_each
    }
    fn snapshot_beside(
        &self,
        (): &(),
        held: u64,
        (_cost, admitted): (u32, bool),
        _now: Timestamp,
    ) -> Status {
        Status {
            remaining: (self.seats / self.of_each).saturating_sub(held),
            judgement: match admitted {
                true => Judgement::Admitted,
                false if self.seats < self.of_each => Judgement::NeverFits,
                false => Judgement::RefusedUntilOneEnds,
            },
            replenished_after_micros: 0,
            reset_after_micros: 0,
            delay_micros: 0,
        }
    }
}

impl Scripted for Seats {
    fn script() -> Script {
        Script::new("seats", SEATS)
            .parameters(&["seats", "of_each"])
            .replies(&["taken"])
    }
    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        tell(self.seats);
        tell(self.of_each);
    }
    fn state(&self, numbers: &[u64]) -> Option<()> {
        numbers.is_empty().then_some(())
    }
    fn numbers(&self, (): &(), _tell: &mut dyn FnMut(u64)) {}
    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<Status> {
        let (now, member) = (reply.now(), reply.next_member()?);
        let [taken] = *member.numbers else {
            return None;
        };
        Some(self.snapshot_beside(&(), taken, (member.cost, member.admitted), now))
    }
}
