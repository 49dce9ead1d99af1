//! The status of a policy: what remains, and the waits.

/// What a rule says about one key at one instant: what is left, whether the cost fits, and how long
/// to wait, in whole microseconds and units.
///
/// An algorithm fills it in; a [`PolicyDecision`](super::PolicyDecision) is read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// How many further units are admitted at this instant, one by one.
    pub remaining: u64,
    /// What it decided about the cost.
    pub judgement: Judgement,
    /// How long until `remaining` is larger; zero if it is all there.
    pub replenished_after_micros: u64,
    /// How long until the state says no more than a fresh one; zero if it does.
    pub reset_after_micros: u64,
    /// How long an admitted request must be delayed.
    pub delay_micros: u64,
}

impl Status {
    /// The status of a policy that refuses every cost for so many microseconds.
    pub(crate) fn refused_for(micros: u64) -> Self {
        Self {
            remaining: 0,
            judgement: Judgement::RefusedForMicros(micros),
            replenished_after_micros: micros,
            reset_after_micros: micros,
            delay_micros: 0,
        }
    }

    /// The status of a policy that lets through at most `limit` units at once, has `remaining` of
    /// them left, and has decided about a cost. `refused_cost` is read only if it was refused.
    ///
    /// `wait` tells after how many microseconds a number of units is let through: 0 if it is now,
    /// `None` if never. It is asked about the refused cost, about one unit more than is left, and
    /// about `limit`. So if single costs have a lower maximum than `limit`, let `wait` answer for
    /// units that come one by one, and set [`judgement`](Self::judgement) of a larger cost to
    /// [`NeverFits`](Judgement::NeverFits).
    #[inline]
    pub fn of(
        limit: u64,
        remaining: u64,
        refused_cost: u64,
        admitted: bool,
        wait: impl Fn(u64) -> Option<u64>,
    ) -> Self {
        let judgement = match admitted {
            true => Judgement::Admitted,
            false => wait(refused_cost).map_or(Judgement::NeverFits, Judgement::RefusedForMicros),
        };
        let when = |units| match remaining < limit {
            true => wait(units).unwrap_or(0),
            false => 0,
        };
        Self {
            remaining,
            judgement,
            replenished_after_micros: when(remaining.saturating_add(1)),
            reset_after_micros: when(limit),
            delay_micros: 0,
        }
    }
}

/// What one policy has decided about one cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It is let through.
    Admitted,
    /// It would be let through after this many microseconds, if nothing else happens till then.
    RefusedForMicros(u64),
    /// It would be let through when one of the requests that are in flight has ended, and nobody
    /// knows when.
    RefusedUntilOneEnds,
    /// It is more than can ever be let through at once.
    NeverFits,
}
