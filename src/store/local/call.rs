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
