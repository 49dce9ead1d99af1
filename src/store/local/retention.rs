//! How long the state of a key is kept, and what a key that was forgotten starts from.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    algorithm::{Algorithm, ConfigId},
    clock::Timestamp,
};

/// A state may be dropped once it says no more than a fresh one.
///
/// While a policy has had one configuration, its algorithm says when that is. Once it has had
/// several, one of them may call a state fresh that another one still counts: `MinInterval` keeps
/// no more than a stamp, and so may an algorithm of a user's own. Then a grace period goes by
/// before a state is dropped: the retention of the slowest configuration.
pub(super) struct Retention {
    /// 0 while the policy has had one configuration.
    grace_micros: AtomicU64,
    /// The latest instant at which a state was dropped, in microseconds. A key that comes back
    /// after the clock has stepped back counts as last seen then, so that the step opens nothing.
    dropped_at_micros: AtomicU64,
}

impl Retention {
    pub(super) fn new() -> Self {
        Self {
            grace_micros: AtomicU64::new(0),
            dropped_at_micros: AtomicU64::new(0),
        }
    }

    /// The policy has had several configurations, and this is one of them.
    pub(super) fn add_configuration(&self, configuration: ConfigId) {
        let micros = configuration.retention().as_micros();
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        // Mostly it is known already: threads that only read don't wait for each other.
        if self.grace_micros.load(Ordering::Acquire) < micros {
            self.grace_micros.fetch_max(micros, Ordering::Release);
        }
    }

    /// A state may be dropped now if it was fresh at this instant.
    pub(super) fn fresh_by(&self, now: Timestamp) -> Timestamp {
        let grace = self.grace_micros.load(Ordering::Acquire);
        Timestamp::from_micros(now.as_micros().saturating_sub(grace))
    }

    /// A state is dropped now.
    pub(super) fn note_drop(&self, now: Timestamp) {
        // Mostly another one was dropped in this microsecond.
        if self.dropped_at_micros.load(Ordering::Relaxed) < now.as_micros() {
            self.dropped_at_micros
                .fetch_max(now.as_micros(), Ordering::Relaxed);
        }
    }

    /// The state of a key that has none.
    #[inline]
    pub(super) fn fresh_state<A: Algorithm>(&self, algorithm: &A) -> A::State {
        let at = self.dropped_at_micros.load(Ordering::Relaxed);
        algorithm.fresh(Timestamp::from_micros(at))
    }
}
