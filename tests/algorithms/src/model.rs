//! What a model is, and what several of them need.

use std::fmt;

/// What a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Units, at the instant of their admission.
    Units,
    /// Units, at the instant of their scheduled release.
    Releases,
    /// Requests, at the instant of their admission.
    Requests,
}

/// The most in any half-open span of this many microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The length of the span.
    pub span: i128,
    /// The most in it.
    pub most: i128,
    /// What is counted.
    pub counts: Counts,
}

impl Bound {
    pub(crate) fn units(span: i128, most: i128) -> Self {
        let counts = Counts::Units;
        Self { span, most, counts }
    }
}

/// One rule, slow and plain. Times are in microseconds. A model keeps the last instant that it has
/// seen (the stamp).
pub trait Model: Fork + fmt::Debug {
    /// Becomes a state that was never charged, as if last seen at `at`.
    fn forget(&mut self, at: i128);

    /// The most that is let through at once.
    fn limit(&self) -> i128;

    /// From most charged to fresh, in microseconds.
    fn span(&self) -> i128;

    /// What all numbers of one name must share, to share a state.
    fn shape(&self) -> Vec<i128>;

    /// Whether the cost is admitted.
    fn admits(&self, cost: i128, now: i128) -> bool;

    /// Whether so many further units remain; requests, if it counts those.
    fn has_room_for(&self, units: i128, now: i128) -> bool {
        self.admits(units, now)
    }

    /// Charges an admitted cost.
    fn charge(&mut self, cost: i128, now: i128);

    /// Takes back the newest units that still count.
    fn refund(&mut self, cost: i128, now: i128);

    /// How long an admitted cost is delayed, asked before it is charged.
    fn delay(&self, _cost: i128, _now: i128) -> i128 {
        0
    }

    /// How long until it is like one that was never charged, if that is not as soon as all units
    /// remain.
    fn reset_after(&self, _now: i128) -> Option<i128> {
        None
    }

    /// The printed bound, for costs up to this.
    fn bound(&self, largest_cost: i128) -> Bound;
}

/// What can be tried on a copy.
pub trait Fork {
    /// A copy.
    fn fork(&self) -> Box<dyn Model>;
}

impl<M: Model + Clone + 'static> Fork for M {
    fn fork(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

/// Units that were admitted at an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted {
    pub(crate) at: i128,
    pub(crate) units: i128,
}

pub(crate) fn units_of(admitted: &[Admitted], counts: impl Fn(&Admitted) -> bool) -> i128 {
    let counted = admitted.iter().filter(|entry| counts(entry));
    counted.map(|entry| entry.units).sum()
}

/// Takes units out of the oldest entries.
pub(crate) fn take_oldest(admitted: &mut [Admitted], mut units: i128) {
    for entry in admitted {
        let taken = units.min(entry.units);
        entry.units -= taken;
        units -= taken;
    }
}

/// Takes units out of the newest entries that match; says how many are left to take.
pub(crate) fn take_newest(
    admitted: &mut [Admitted],
    mut units: i128,
    counts: impl Fn(&Admitted) -> bool,
) -> i128 {
    for entry in admitted.iter_mut().rev().filter(|entry| counts(entry)) {
        let taken = units.min(entry.units);
        entry.units -= taken;
        units -= taken;
    }
    units
}
