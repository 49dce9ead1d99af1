//! How long the state of a key is kept.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{algorithm::ConfigId, clock::Timestamp};

/// A state may be dropped once it says no more than a fresh one.
///
/// While a policy has had one configuration, its algorithm says when that is. Once it has had
/// several, one of them may call a state fresh that another one still counts: `MinInterval` keeps
/// no more than a stamp, and so may an algorithm of a user's own. Then a grace period goes by
/// before a state is dropped: the retention of the slowest configuration.
pub(super) struct Retention {
    /// 0 while the policy has had one configuration.
    grace_micros: AtomicU64,
}

impl Retention {
    pub(super) fn new() -> Self {
        Self {
            grace_micros: AtomicU64::new(0),
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
}
