//! A rule that refuses what it has admitted a moment ago.

use std::time::Duration;

use tollgate::{
    PolicyDecision, Timestamp,
    algorithm::{Additive, Algorithm, Policy, PolicyId, Script, Scripted, Status},
};

/// Admits a peek, then takes its time and refuses: like a key whose last room goes to someone else
/// meanwhile.
#[derive(Debug, Clone)]
pub struct Fickle(Policy);

const FICKLE: &str = "\
--- judge
m.asked = redis.call('INCR', key .. 'asked')
redis.call('PEXPIRE', key .. 'asked', '600000')
m.fits = m.asked % 2 == 1
if not m.fits then
  for _ = 1, 60000000 do end
end
--- charge
m.used = 1
--- expire
m.expires_at = now
";

impl Algorithm for Fickle {
    type State = u64;
    type Snapshot = Status;
    fn policy_id(&self) -> PolicyId {
        self.0.id()
    }
    fn fresh(&self, _at: Timestamp) -> u64 {
        0
    }
    fn mend(&self, _used: &mut u64, _now: Timestamp) {}
    fn judge(&self, _used: &u64, _cost: u32, _now: Timestamp) -> bool {
        true
    }
    fn charge(&self, used: &mut u64, _cost: u32, _now: Timestamp) {
        *used = 1;
    }
    fn refund(&self, _used: &mut u64, _cost: u32, _now: Timestamp) {}
    fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool {
        *used == 0
    }
    fn snapshot(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
        Status::of(1, 1 - used, u64::from(cost), admitted, |_| None)
    }
    fn describe(&self, standing: &Status, tell: &mut dyn FnMut(PolicyDecision)) {
        tell(PolicyDecision::new(&self.0, *standing));
    }
}

impl Additive for Fickle {
    fn fits(&self, _used: &u64, _units: u64, _now: Timestamp) -> bool {
        true
    }
    fn snapshot_beside(
        &self,
        used: &u64,
        _held: u64,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> Status {
        self.snapshot(used, cost, admitted, now)
    }
}

impl Scripted for Fickle {
    fn script() -> Script {
        Script::new("fickle", FICKLE)
            .state(&["used"])
            .without_refund()
    }
    fn parameters(&self, _tell: &mut dyn FnMut(u64)) {}
    fn state(&self, numbers: &[u64]) -> Option<u64> {
        numbers.first().copied()
    }

    fn numbers(&self, state: &u64, tell: &mut dyn FnMut(u64)) {
        tell(*state);
    }
}

impl Default for Fickle {
    fn default() -> Self {
        Self(Policy::new("fickle", &[1], Duration::ZERO))
    }
}
