//! The script of requests in flight: that of places which are held, and renewed.

use crate::algorithm::{Additive, Algorithm, PerRequest, Script, ScriptReply, Scripted, Settled};

use super::InFlight;

impl<A: Additive + Scripted> Scripted for InFlight<A> {
    fn script() -> Script {
        PerRequest::<Settled<A>>::script().in_flight()
    }

    /// A place is renewed four times in `held_at_most`. After its last renewal it lasts for that
    /// and for the time to the next renewal; and for twice that in all.
    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        let whole = self.held_at_most_micros;
        self.rule.0.rule.parameters(tell);
        tell(whole + whole / 4);
        tell(2 * whole);
        // What has ended was not charged, or matters for as long as the rule says.
        let retention = self.rule.config_id().retention().as_micros();
        tell(u64::try_from(retention).unwrap_or(u64::MAX));
    }

    fn state(&self, numbers: &[u64]) -> Option<Self::State> {
        self.rule.state(numbers)
    }

    fn numbers(&self, state: &Self::State, tell: &mut dyn FnMut(u64)) {
        self.rule.numbers(state, tell);
    }

    fn admission(&self, admission: &Self::Snapshot, tell: &mut dyn FnMut(u64)) {
        self.rule.admission(admission, tell);
    }

    fn read(&self, reply: &mut ScriptReply<'_>) -> Option<Self::Snapshot> {
        self.rule.read(reply)
    }
}
