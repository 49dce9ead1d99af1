//! A key that is refused, or let through, until an instant.

use std::time::Duration;

use crate::clock::Timestamp;

use super::KeyLimit;

/// Refuses or lets through every request of a key until an instant, whatever its limit says.
///
/// A [store](crate::store) keeps it, if [it is told so](crate::store::Change::Override).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// From this instant on the limit decides again, by a fresh state.
    pub until: Timestamp,
    /// Whether every request is let through, or every one that costs anything is refused.
    pub lets_through: bool,
}

impl Override {
    /// What is decided while it is in force: whether the cost is admitted, and the snapshot.
    /// Nothing is charged.
    ///
    /// A limit in [shadow](super::Policy::shadow) refuses nobody. What is let through has the
    /// status of a key that was never charged.
    pub fn decide<A: KeyLimit>(self, limit: &A, cost: u32, now: Timestamp) -> (bool, A::Snapshot) {
        if self.lets_through || cost == 0 {
            return (true, limit.snapshot(&limit.fresh(now), 0, true, now));
        }
        let mut in_shadow = true;
        limit.each_policy(&mut |policy| in_shadow &= policy.is_in_shadow());
        // The clock may have gone on since it was in force.
        let wait = self.until.since(now).max(Duration::from_micros(1));
        (in_shadow, limit.refused_for(wait, now))
    }
}
