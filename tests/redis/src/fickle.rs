//! A rule that refuses what it has admitted a moment ago.

use std::time::Duration;

use tollgate::{
    Timestamp,
    algorithm::{Additive, Algorithm, Policy, Script, Scripted, Status},
};

/// Admits a peek, then takes its time and refuses: like a key whose last room goes to someone else
/// meanwhile.
#[derive(Debug, Clone)]
pub struct Fickle(Policy);

const FICKLE: &str = "
local function fickle(last, now, cost, must, used)
  if cost > 0 and not must then
    local asked = redis.call('INCR', KEYS[1] .. 'asked')
    redis.call('PEXPIRE', KEYS[1] .. 'asked', '600000')
    if asked % 2 == 0 then
      for _ = 1, 60000000 do end
      return false
    end
  end
  return true, now, cost > 0 and 1 or used
end
";

impl Algorithm for Fickle {
    type State = u64;
    fn policy(&self) -> &Policy {
        &self.0
    }
    fn fresh(&self, _at: Timestamp) -> u64 {
        0
    }
    fn judge(&self, _used: &u64, _cost: u32, _now: Timestamp) -> bool {
        true
    }
    fn debit(&self, used: &mut u64, _units: u64, _now: Timestamp) {
        *used = 1;
    }
    fn refund(&self, _used: &mut u64, _cost: u32, _now: Timestamp) {}
    fn is_fresh(&self, used: &u64, _now: Timestamp) -> bool {
        *used == 0
    }
    fn status(&self, used: &u64, cost: u32, admitted: bool, _now: Timestamp) -> Status {
        Status::of(1, 1 - used, u64::from(cost), admitted, |_| None)
    }
}

impl Additive for Fickle {
    fn fits(&self, _used: &u64, _units: u64, _now: Timestamp) -> bool {
        true
    }
    fn status_beside(
        &self,
        used: &u64,
        _held: u64,
        (cost, admitted): (u32, bool),
        now: Timestamp,
    ) -> Status {
        self.status(used, cost, admitted, now)
    }
}

impl Scripted for Fickle {
    fn script() -> Script {
        Script::new("fickle", FICKLE).state(&["used"])
    }
    fn parameters(&self, _output: &mut dyn FnMut(u64)) {}
    fn state(&self, _at: Timestamp, numbers: &[u64]) -> Option<u64> {
        numbers.first().copied()
    }

    fn numbers(&self, state: &u64, _at: Timestamp, output: &mut dyn FnMut(u64)) {
        output(*state);
    }
}

impl Default for Fickle {
    fn default() -> Self {
        Self(Policy::new("fickle", &[1], Duration::ZERO))
    }
}
