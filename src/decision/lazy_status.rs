//! A status that is resolved when somebody asks for it.

use super::Status;

/// The numbers from which a [`Status`] is resolved when somebody asks.
///
/// Mostly only whether the request is admitted is asked for, and a wait costs a division. The
/// `decision` bench shows what it saves, in the rows of `check`.
///
/// # Example: a wait that is divided for only when it is read
///
/// ```
/// use std::time::Duration;
/// use tollgate::PolicyDecision;
/// use tollgate::algorithm::{LazyStatus, Judgement, Policy, Status};
///
/// // One unit each three seconds, of which `missing` have to come back.
/// fn resolve(status: &LazyStatus, limit: u64) -> Status {
///     let [missing, micros] = [status.numbers()[0], status.numbers()[1]];
///     Status::of(limit, limit - missing, status.refused_cost().into(), status.is_admitted(), |units| {
///         (units <= limit).then(|| (units + missing).saturating_sub(limit) * micros / 10)
///     })
/// }
///
/// let policy = Policy::new("mine", &[5], Duration::from_secs(15));
/// let status = LazyStatus::new(2, [4, 30_000_000, 0, 0, 0, 0, 0], resolve);
/// let decision = PolicyDecision::lazy(&policy, status);
/// assert_eq!((decision.is_admitted(), decision.remaining()), (false, 1));
/// assert_eq!(decision.retry_after(), Some(Duration::from_secs(3)));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LazyStatus {
    // `u64`, not `u32`: avoids a store-forwarding stall on copy, which takes as long as half a
    // decision (`decision` bench, rows of `check`).
    numbers: [u64; LazyStatus::NUMBERS],
    /// 0 if the cost was admitted.
    refused_cost: u64,
    resolve: fn(&LazyStatus, u64) -> Status,
}

impl LazyStatus {
    /// How many numbers it holds.
    pub const NUMBERS: usize = 7;

    /// A status of these numbers, and how it is resolved: `resolve` is given this status and the
    /// policy's limit. `refused_cost` is the cost that was refused, or 0 if it was admitted; a cost
    /// of 0 is never refused.
    #[inline]
    pub const fn new(
        refused_cost: u32,
        numbers: [u64; Self::NUMBERS],
        resolve: fn(&LazyStatus, u64) -> Status,
    ) -> Self {
        Self {
            numbers,
            refused_cost: refused_cost as u64,
            resolve,
        }
    }

    /// Its numbers.
    #[inline]
    pub const fn numbers(&self) -> &[u64; Self::NUMBERS] {
        &self.numbers
    }

    /// The cost that was refused, or 0 if it was admitted.
    #[inline]
    pub const fn refused_cost(&self) -> u32 {
        self.refused_cost as u32
    }

    /// Whether the cost was admitted.
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        self.refused_cost == 0
    }

    #[inline]
    pub(super) fn resolve(&self, limit: u64) -> Status {
        (self.resolve)(self, limit)
    }
}
