//! A status that is resolved when somebody asks for it.

use super::{Judgement, Status};

/// A [`Status`], or the numbers from which it is resolved when somebody asks.
///
/// Mostly only whether the request is admitted is asked for, and each wait costs a division: a
/// check of an address takes 0.61 of governor's instructions so, and 1.01 if all is worked out
/// (bench `instructions`).
#[derive(Debug, Clone, Copy)]
pub enum LazyStatus {
    Known(Status),
    Lazy {
        // `u64` for all: avoids a store-forwarding stall on copy, which takes as long as half a
        // decision (`decision` bench, rows of `check`).
        numbers: [u64; 7],
        /// 0 if the cost was admitted.
        refused_cost: u64,
        /// Is given the numbers, the policy's limit, and the cost that was refused.
        resolve: fn(&[u64; 7], u64, u64) -> Status,
    },
}

impl LazyStatus {
    #[inline]
    pub(crate) fn new(
        (cost, admitted): (u32, bool),
        numbers: [u64; 7],
        resolve: fn(&[u64; 7], u64, u64) -> Status,
    ) -> Self {
        Self::Lazy {
            numbers,
            refused_cost: if admitted { 0 } else { cost.into() },
            resolve,
        }
    }

    /// Its numbers, unless it is known.
    pub(crate) fn numbers(&self) -> Option<[u64; 7]> {
        match *self {
            Self::Known(_) => None,
            Self::Lazy { numbers, .. } => Some(numbers),
        }
    }

    #[inline]
    pub(crate) fn is_admitted(&self) -> bool {
        match self {
            Self::Known(status) => status.judgement == Judgement::Admitted,
            Self::Lazy { refused_cost, .. } => *refused_cost == 0,
        }
    }

    /// The status of a policy with this limit.
    #[inline]
    pub(crate) fn resolve(&self, limit: u64) -> Status {
        match self {
            Self::Known(status) => *status,
            Self::Lazy {
                numbers,
                refused_cost,
                resolve,
            } => resolve(numbers, limit, *refused_cost),
        }
    }
}
