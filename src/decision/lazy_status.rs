//! A status that is worked out when somebody asks for it.

use std::time::Duration;

use super::{Judgement, Status};

/// A cost, and whether it was admitted.
pub(crate) type JudgedCost = (u32, bool);

/// A [`Status`], or the numbers from which it is worked out when somebody asks.
///
/// Mostly only whether the request is admitted is asked for, and each wait costs a division: a
/// check of an address takes 0.61 of governor's instructions so, and 1.01 if all is worked out
/// (bench `instructions`).
#[derive(Debug, Clone, Copy)]
pub enum LazyStatus {
    Known(Status),
    Lazy {
        // These numbers and no others: of another shape it is copied in halves, for which the
        // processor waits. Then a decision that is kept takes twice as long (bench `decision`).
        /// The last one is 0 if the request is not delayed.
        numbers: [u64; 7],
        /// 0 if the cost was admitted.
        refused_cost: u64,
        /// Is given the numbers, the policy's limit, and the cost that was refused.
        resolve: fn(&[u64; 7], u64, u64) -> Status,
    },
    /// That of a cost of 0, of a limit in shadow that would have refused.
    WouldRefuse(Status),
}

impl LazyStatus {
    #[inline]
    pub(crate) fn new(
        (cost, admitted): JudgedCost,
        numbers: [u64; 7],
        resolve: fn(&[u64; 7], u64, u64) -> Status,
    ) -> Self {
        Self::Lazy {
            numbers,
            refused_cost: if admitted { 0 } else { cost.into() },
            resolve,
        }
    }

    #[inline]
    pub(crate) fn is_admitted(&self) -> bool {
        match self {
            Self::Known(status) => status.judgement == Judgement::Admitted,
            Self::Lazy { refused_cost, .. } => *refused_cost == 0,
            Self::WouldRefuse(_) => true,
        }
    }

    pub(crate) fn would_refuse(&self) -> bool {
        matches!(self, Self::WouldRefuse(_))
    }

    /// How long an admitted request of a policy with this limit must be delayed.
    #[inline]
    pub(crate) fn delay(&self, limit: u64) -> Duration {
        match self {
            Self::Lazy { numbers, .. } if numbers[6] == 0 => Duration::ZERO,
            _ => Self::resolved_delay(*self, limit),
        }
    }

    // Apart, and of a copy, so that a status without delay need not be written to memory: a ninth
    // of the instructions of a layer without fields (bench `instructions`).
    #[cold]
    fn resolved_delay(self, limit: u64) -> Duration {
        Duration::from_micros(self.resolve(limit).delay_micros)
    }

    /// The status of a policy with this limit.
    #[inline]
    pub(crate) fn resolve(&self, limit: u64) -> Status {
        match self {
            Self::Known(status) | Self::WouldRefuse(status) => *status,
            Self::Lazy {
                numbers,
                refused_cost,
                resolve,
            } => resolve(numbers, limit, *refused_cost),
        }
    }
}
