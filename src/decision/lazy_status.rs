//! A status that is worked out when somebody asks for it.

use super::{Judgement, Status};

/// A [`Status`], or what a bucket owes, from which it is worked out.
///
/// Mostly only whether the request is admitted is asked for, and each wait costs a division: a
/// check of an address takes 0.61 of governor's instructions so, and 1.01 if all is worked out
/// (bench `instructions`).
#[derive(Debug, Clone, Copy)]
pub enum LazyStatus {
    Known(Status),
    Owed(Owed),
}

/// What a bucket owes right after a decision, and how it is paid off.
///
/// `u64` for all: a copy of smaller numbers waits for the processor to have written them, which
/// takes as long as half a decision (bench `decision`, rows of `check`).
#[derive(Debug, Clone, Copy)]
pub struct Owed {
    /// What is owed, in parts of a unit, as of this tick.
    pub(crate) parts: u64,
    pub(crate) tick: u64,
    pub(crate) now_micros: u64,
    /// The units that were charged, or that were refused; otherwise 0.
    pub(crate) charged: u64,
    pub(crate) refused: u64,
    pub(crate) by: BucketNumbers,
}

/// How much a bucket may owe, and how it is paid off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketNumbers {
    pub(crate) capacity_parts: u64,
    pub(crate) parts_per_unit: u64,
    pub(crate) parts_per_tick: u64,
    pub(crate) tick_micros: u64,
    /// If requests wait, how much may be owed with one that goes at once; otherwise 0.
    pub(crate) at_once_parts: u64,
}

impl LazyStatus {
    #[inline]
    pub(crate) fn is_admitted(&self) -> bool {
        match self {
            Self::Known(status) => status.judgement == Judgement::Admitted,
            Self::Owed(owed) => owed.refused == 0,
        }
    }

    /// How long an admitted request must be delayed.
    #[inline]
    pub(crate) fn delay_micros(&self) -> u64 {
        match self {
            Self::Known(status) => status.delay_micros,
            Self::Owed(owed) => owed.delay_micros(),
        }
    }

    /// The status of a policy with this limit.
    #[inline]
    pub(crate) fn resolve(&self, limit: u64) -> Status {
        match self {
            Self::Known(status) => *status,
            Self::Owed(owed) => owed.status(limit),
        }
    }
}

impl Owed {
    pub(crate) fn status(&self, limit: u64) -> Status {
        let (unit, capacity) = (self.by.parts_per_unit, self.by.capacity_parts);
        let remaining = capacity.saturating_sub(self.parts) / unit;
        let is_admitted = self.refused == 0;
        let status = Status::of(limit, remaining, self.refused, is_admitted, |units| {
            let parts = (units <= limit).then(|| units * unit)?;
            self.micros_to_pay((self.parts + parts).saturating_sub(capacity))
        });
        Status {
            // Not the wait for all units, which may be there while less than a unit is owed.
            reset_after_micros: self.micros_to_pay(self.parts).unwrap_or(0),
            delay_micros: self.delay_micros(),
            ..status
        }
    }

    /// A request leaves when no more than the burst is owed with it, or nothing before it.
    #[inline]
    fn delay_micros(&self) -> u64 {
        if self.by.at_once_parts == 0 || self.charged == 0 {
            return 0;
        }
        let at_once = (self.charged * self.by.parts_per_unit).max(self.by.at_once_parts);
        let waits_for = self.parts.saturating_sub(at_once);
        self.micros_to_pay(waits_for).unwrap_or(0)
    }

    /// How long until so many parts are paid off; none, if they never are.
    fn micros_to_pay(&self, parts: u64) -> Option<u64> {
        let ticks = match self.by.parts_per_tick {
            _ if parts == 0 => return Some(0),
            0 => return None,
            1 => parts,
            per_tick => parts.div_ceil(per_tick),
        };
        // A debt that others left may be more than can ever be paid at this rate.
        let paid_at = (self.tick + ticks).saturating_mul(self.by.tick_micros);
        Some(paid_at.saturating_sub(self.now_micros))
    }
}
