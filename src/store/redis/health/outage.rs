//! An outage of Redis: what has failed, and what of it is logged.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::clock::Timestamp;

/// An outage is logged at most this often, and is over once nothing has failed for this long.
pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Outage {
    pub(super) is_misconfigured: bool,
    pub(super) since: Timestamp,
    pub(super) last_failure: Timestamp,
    last_misconfigured: Option<Timestamp>,
    pub(super) failed: u64,
    pub(super) logged_at: Timestamp,
    unlogged: u64,
}

impl Outage {
    pub(super) fn new(is_misconfigured: bool, now: Timestamp) -> Self {
        Self {
            is_misconfigured,
            since: now,
            last_failure: now,
            last_misconfigured: is_misconfigured.then_some(now),
            failed: 1,
            logged_at: now,
            unlogged: 0,
        }
    }

    pub(super) fn count(&mut self, (failed, last): (u64, Timestamp)) {
        if failed > 0 {
            self.failed += failed;
            self.unlogged += failed;
            self.last_failure = last;
        }
    }

    pub(super) fn after_failure(
        &mut self,
        is_misconfigured: bool,
        now: Timestamp,
    ) -> Option<Change> {
        self.count((1, now));
        if is_misconfigured {
            self.last_misconfigured = Some(now);
        }
        // Under load some calls learn what is set up wrongly while others only time out: the first
        // is what the operator needs to know.
        let is_misconfigured =
            (self.last_misconfigured).is_some_and(|last| elapsed(last, now) < SECOND);
        let has_changed = is_misconfigured != self.is_misconfigured;
        if !has_changed && elapsed(self.logged_at, now) < SECOND {
            return None;
        }
        self.is_misconfigured = is_misconfigured;
        self.logged_at = now;
        let failed = std::mem::take(&mut self.unlogged);
        Some(match has_changed {
            true => Change::Began { is_misconfigured },
            false => Change::Lasts {
                is_misconfigured,
                failed,
                lasting: elapsed(self.since, now),
            },
        })
    }
}

/// The failures between two events of an outage. They are counted without a lock: while Redis is
/// down each decision is one. With the lock, and by the system's monotonic clock, a decision of the
/// fallback limit takes a tenth longer (bench `outage`).
#[derive(Default)]
pub(super) struct UnloggedFailures {
    /// Until then a failure is only counted.
    until: AtomicU64,
    last: AtomicU64,
    failed: AtomicU64,
}

impl UnloggedFailures {
    /// Counts a failure, if it is not to be logged; says whether it did. If `until` is more than a
    /// second ahead, the clock has stepped back since.
    #[inline]
    pub(super) fn counts(&self, now: Timestamp) -> bool {
        let now = now.as_micros();
        let left = self.until.load(Relaxed).saturating_sub(now);
        let is_unlogged = (1..=SECOND.as_micros() as u64).contains(&left);
        if is_unlogged {
            self.last.store(now, Relaxed);
            self.failed.fetch_add(1, Relaxed);
        }
        is_unlogged
    }

    /// How many failures were counted since the last call of this, and when the last of them was.
    pub(super) fn take(&self) -> (u64, Timestamp) {
        let failed = self.failed.swap(0, Relaxed);
        (failed, Timestamp::from_micros(self.last.load(Relaxed)))
    }

    pub(super) fn until(&self, until: Timestamp) {
        self.until.store(until.as_micros(), Relaxed);
    }
}

/// What is logged about an outage.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Began {
        is_misconfigured: bool,
    },
    Lasts {
        is_misconfigured: bool,
        failed: u64,
        lasting: Duration,
    },
    Ended {
        was_misconfigured: bool,
        failed: u64,
        lasted: Duration,
    },
}

/// How far apart the two are, in either direction: after the clock has stepped back, logging does
/// not wait until it has caught up.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(now.as_micros().abs_diff(since.as_micros()))
}
