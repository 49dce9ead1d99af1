//! The script of requests in flight: that of places which are held, and renewed.

use crate::algorithm::{
    PerRequest, Script, ScriptReply, Scripted, Settled, settled::script::matters_for,
};

use super::{InFlight, places::Places};

impl Scripted for InFlight {
    fn script() -> Script {
        PerRequest::<Settled<Places>>::script().in_flight()
    }

    /// A place is renewed four times in `held_at_most`. After its last renewal it lasts for
    /// `held_at_most` and the time to the next renewal, and for twice `held_at_most` in all. What
    /// the script calls `held_at_most` is a quarter longer.
    fn parameters(&self, tell: &mut dyn FnMut(u64)) {
        let whole = self.held_at_most_micros;
        self.rule.0.rule.parameters(tell);
        tell(whole + whole / 4);
        tell(2 * whole);
        tell(matters_for(&self.rule.0.rule));
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
