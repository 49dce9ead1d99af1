//! One call: its algorithm, its cost and the clock that it goes by.

use crate::{algorithm::Algorithm, clock::Timestamp};

/// The algorithm and the cost of a call, and the clock that it goes by.
///
/// The clock is read under all locks that the call takes. A thread that has waited for a lock with
/// a time would bring one that is earlier than the state's.
pub(super) struct Call<'a, A> {
    pub(super) algorithm: &'a A,
    pub(super) cost: u32,
    pub(super) clock: &'a dyn Fn() -> Timestamp,
}

impl<A> Copy for Call<'_, A> {}

impl<A> Clone for Call<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, A> Call<'a, A> {
    pub(super) fn new(algorithm: &'a A, cost: u32, clock: &'a dyn Fn() -> Timestamp) -> Self {
        Self {
            algorithm,
            cost,
            clock,
        }
    }
}

impl<A: Algorithm> Call<'_, A> {
    pub(super) fn now(self) -> Timestamp {
        (self.clock)()
    }
}

/// The state of a key that has none.
#[inline]
pub(super) fn fresh_state<A: Algorithm>(algorithm: &A) -> A::State {
    algorithm.fresh(Timestamp::from_micros(0))
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
        let now = self.now();
        self.algorithm.debit(state, self.cost.into(), now);
    }

    /// Charges as many of the units as fit: a debt of one caller must not lock out all others who
    /// share the bucket.
    pub(super) fn debit_up_to_capacity(self, state: &mut A::State) {
        let now = self.now();
        let units = u64::from(self.cost).min(self.room(state, now));
        self.algorithm.debit(state, units, now);
    }

    pub(super) fn refund(self, state: &mut A::State) {
        if self.cost == 0 {
            return;
        }
        let now = self.now();
        self.algorithm.refund(state, self.cost, now);
    }

    /// Gives back the place of this admission, if it lies in the state; says whether it does.
    pub(super) fn end(self, state: &mut A::State, admission: &A::Snapshot) -> bool {
        let now = self.now();
        let is_held = self.algorithm.holds(state, admission);
        if is_held {
            self.algorithm.end(state, admission, now);
        }
        is_held
    }

    /// Settles the hold, if it lies in the state; says whether it does.
    pub(super) fn settle_held(self, state: &mut A::State, hold: SettledHold<'_, A>) -> bool {
        let now = self.now();
        let is_held = self.algorithm.holds(state, hold.admission);
        if is_held {
            self.settle_at(now, state, hold);
        }
        is_held
    }

    /// Settles a hold, wherever it lies: what was spent beyond it is charged here.
    pub(super) fn settle(self, state: &mut A::State, hold: SettledHold<'_, A>) {
        let now = self.now();
        self.settle_at(now, state, hold);
    }

    fn settle_at(self, now: Timestamp, state: &mut A::State, hold: SettledHold<'_, A>) {
        let held_and_spent = (self.cost, hold.spent);
        (self.algorithm).settle(state, hold.admission, held_and_spent, now);
    }

    /// Settles a hold as [`settle`](Self::settle), but charges what was spent beyond it only as far
    /// as it fits.
    pub(super) fn settle_up_to_capacity(self, state: &mut A::State, hold: SettledHold<'_, A>) {
        let now = self.now();
        let (held, spent) = (self.cost, hold.spent.min(self.cost));
        (self.algorithm).settle(state, hold.admission, (held, spent), now);
        let beyond = u64::from(hold.spent - spent).min(self.room(state, now));
        let beyond = u32::try_from(beyond).unwrap_or(u32::MAX);
        (self.algorithm).settle(state, hold.admission, (0, beyond), now);
    }

    fn room(self, state: &A::State, now: Timestamp) -> u64 {
        let snapshot = self.algorithm.snapshot(state, 0, true, now);
        self.algorithm.decision(&snapshot).remaining()
    }
}
