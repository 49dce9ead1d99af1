//! What an algorithm must be so that units can be held.

use crate::clock::Timestamp;

use super::{Algorithm, JudgedCost, Status};

/// An algorithm whose units can be held and [settled](super::Settled) later.
///
/// A hold keeps units without charging them. It is admitted if all that is held would fit together
/// with it, and settling charges what was really spent. That keeps the algorithm's own bound,
/// whether a request counts when it is admitted or when it is settled, if its rule is
///
/// - **monotone in units**: if more units fit, fewer do;
/// - **monotone in time**: what fits now fits later, if nothing else is charged;
/// - **additive**: if *u* units fit and *a* ≤ *u* of them are charged, *u* − *a* still fit at that
///   instant.
///
/// Then every unit that is settled is one that the algorithm alone would have admitted at that
/// instant. As all that is held could be charged at any instant, so it is by the time of
/// admission too.
///
/// The buckets, windows and logs of this crate are additive. `MinInterval`, which counts requests,
/// and queues, whose waiting requests have been promised an instant, are not.
#[diagnostic::on_unimplemented(
    message = "units of `{Self}` cannot be held and settled later",
    label = "not an additive algorithm",
    note = "hold units of a bucket, a window or a log of `tollgate::algorithm`, which are additive"
)]
pub trait Additive: Algorithm {
    /// Whether so much would be admitted now.
    fn fits(&self, state: &Self::State, amount: u64, now: Timestamp) -> bool;

    /// What is held for so many units: by default the units.
    ///
    /// A rule that counts in parts of a unit holds those, so that what others hold under other
    /// numbers of the same name is [converted](Self::converted) as its state is.
    fn amount(&self, units: u64) -> u64 {
        units
    }

    /// What an amount is by these numbers that was counted by those of the state.
    fn converted(&self, _state: &Self::State, amount: u64) -> u64 {
        amount
    }

    /// Charges an amount, whether it fits or not. Then the state is counted by these numbers, also
    /// if the amount is 0.
    fn debit_amount(&self, state: &mut Self::State, amount: u64, now: Timestamp) {
        if amount > 0 {
            self.debit(state, amount, now);
        }
    }

    /// The [status](Algorithm::status) after a decision about a cost, as if the amount
    /// `held` had been charged too, now.
    fn status_beside(
        &self,
        state: &Self::State,
        held: u64,
        cost: JudgedCost,
        now: Timestamp,
    ) -> Status;
}
