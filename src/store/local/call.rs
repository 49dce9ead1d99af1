//! One call: its algorithm, its cost and its time.

use crate::{algorithm::Algorithm, clock::Timestamp, store::Verdict};

/// The algorithm, the cost and the time of a call.
pub(super) struct Call<'a, A> {
    pub(super) algorithm: &'a A,
    pub(super) cost: u32,
    pub(super) now: Timestamp,
}

impl<A> Copy for Call<'_, A> {}

impl<A> Clone for Call<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Algorithm> Call<'_, A> {
    /// Decides on a state, in place.
    #[inline]
    pub(super) fn step(self, state: &mut A::State) -> Verdict<A::Snapshot> {
        let (admitted, snapshot) = self.algorithm.step(state, self.cost, self.now);
        Verdict { admitted, snapshot }
    }
}

/// A hold that is settled; [`Call::cost`] is what was held.
pub(super) struct SettledHold<'a, A: Algorithm> {
    pub(super) admission: &'a A::Snapshot,
    pub(super) spent: u32,
}

impl<A: Algorithm> Copy for SettledHold<'_, A> {}

impl<A: Algorithm> Clone for SettledHold<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Algorithm> Call<'_, A> {
    /// Charges the units, whether they fit or not.
    pub(super) fn debit(self, state: &mut A::State) {
        self.algorithm.debit(state, self.cost.into(), self.now);
    }

    /// Charges as many of the units as fit: a debt of one caller must not lock out all others who
    /// share the bucket.
    pub(super) fn debit_up_to_capacity(self, state: &mut A::State) {
        self.algorithm.mend(state, self.now);
        let units = u64::from(self.cost).min(self.room(state));
        self.algorithm.debit(state, units, self.now);
    }

    pub(super) fn settle(self, state: &mut A::State, hold: SettledHold<'_, A>) {
        let held_and_spent = (self.cost, hold.spent);
        (self.algorithm).settle(state, hold.admission, held_and_spent, self.now);
    }

    /// The same, but what was spent beyond the hold is charged only as far as it fits.
    pub(super) fn settle_up_to_capacity(self, state: &mut A::State, hold: SettledHold<'_, A>) {
        let (held, spent) = (self.cost, hold.spent.min(self.cost));
        (self.algorithm).settle(state, hold.admission, (held, spent), self.now);
        let beyond = u64::from(hold.spent - spent).min(self.room(state));
        let beyond = u32::try_from(beyond).unwrap_or(u32::MAX);
        (self.algorithm).settle(state, hold.admission, (0, beyond), self.now);
    }

    fn room(self, state: &A::State) -> u64 {
        let snapshot = self.algorithm.snapshot(state, 0, true, self.now);
        self.algorithm.decision(&snapshot).remaining()
    }
}
