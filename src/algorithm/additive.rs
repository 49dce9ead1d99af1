//! What an algorithm must be so that units can be held.

use crate::clock::Timestamp;

use super::Algorithm;

/// An algorithm whose units can be held and [settled](super::Settled) later.
///
/// A hold keeps units without charging them. It is admitted if all that is held would fit together
/// with it, and settling charges what was really spent. That keeps the algorithm's own bound, by
/// the time of settlement and by the time of admission, if its rule is
///
/// - **monotone in units**: if more units fit, fewer do;
/// - **monotone in time**: what fits now fits later, if nothing else is charged;
/// - **additive**: if *u* units fit and *a* ≤ *u* of them are charged, *u* − *a* still fit at that
///   instant.
///
/// Then every unit that is settled is one that the algorithm alone would have admitted at that
/// instant. As all that is held could be charged at any instant, the bound holds by the time of
/// admission too.
///
/// The buckets, windows and logs of this crate are additive. `MinInterval`, which counts requests,
/// and queues, whose waiting requests have been promised an instant, are not.
#[diagnostic::on_unimplemented(
    message = "units of `{Self}` cannot be held and settled later",
    label = "not an additive algorithm",
    note = "hold units of a bucket, a window or a log of `tollgate::algorithm`, or implement `tollgate::algorithm::Additive` for a rule of your own that is additive"
)]
pub trait Additive: Algorithm {
    /// Whether so many units would be admitted now.
    fn fits(&self, state: &Self::State, units: u64, now: Timestamp) -> bool;

    /// The [snapshot](Algorithm::snapshot) of a decision about a cost, with whether it was
    /// admitted, as if `held` units more had been charged now.
    fn snapshot_beside(
        &self,
        state: &Self::State,
        held: u64,
        cost: (u32, bool),
        now: Timestamp,
    ) -> Self::Snapshot;

    /// What would be decided about a cost beside `held` units, and the status of the bucket; see
    /// [`look`](Algorithm::look).
    ///
    /// By default on a copy. Override it where a state can be large.
    fn look_beside(
        &self,
        state: &Self::State,
        held: u64,
        cost: u32,
        now: Timestamp,
    ) -> (bool, Self::Snapshot) {
        let mut mended = state.clone();
        self.mend(&mut mended, now);
        look_beside_mended(self, &mended, held, cost, now)
    }
}

/// [`look_beside`](Additive::look_beside) for a state that is mended already.
pub(super) fn look_beside_mended<A: Additive>(
    algorithm: &A,
    mended: &A::State,
    held: u64,
    cost: u32,
    now: Timestamp,
) -> (bool, A::Snapshot) {
    let admitted = cost == 0 || algorithm.fits(mended, held + u64::from(cost), now);
    let refused_cost = if admitted { 0 } else { cost };
    let snapshot = algorithm.snapshot_beside(mended, held, (refused_cost, admitted), now);
    (admitted, snapshot)
}
