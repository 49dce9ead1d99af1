//! The events about a store's health: one when an outage begins or changes its kind, at most one a
//! second while it lasts, and one when it ends.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::error::{StoreError, StoreErrorKind};

use super::lock;

/// An outage is logged at most this often, and is over once nothing has failed for this long.
const SECOND: Duration = Duration::from_secs(1);

/// Whether a store has an outage, by how its calls ended.
#[derive(Default)]
pub(super) struct Health {
    /// Names the store in the events.
    prefix: String,
    outage: Mutex<Option<Outage>>,
    foreign_keys: Throttle,
}

impl Health {
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// Records how a call about these keys ended. Logs without the lock: the subscriber is not our
    /// code.
    pub(super) fn record<'a, T>(
        &self,
        result: &Result<T, StoreError>,
        keys: impl IntoIterator<Item = &'a Bytes>,
    ) {
        let (prefix, now) = (&self.prefix, Instant::now());
        let Err(error) = result else {
            if let Some(ended) = self.after_success(now) {
                tracing::info!(
                    target: "tollgate::store", prefix, was_misconfigured = ended.is_misconfigured,
                    failed = ended.failed, lasted = ?ended.last_failure - ended.since,
                    "the store has recovered"
                );
            }
            return;
        };
        if error.kind() == StoreErrorKind::InvalidInput {
            if let Some(unlogged) = self.foreign_keys.pass() {
                let keys = keys.into_iter().map(|key| key.escape_ascii().to_string());
                let keys = keys.collect::<Vec<_>>().join(" ");
                tracing::warn!(
                    target: "tollgate::store", prefix, %keys, %error, unlogged,
                    "the key has a value that no store wrote: its requests are refused until it is deleted"
                );
            }
            return;
        }
        match self.after_failure(error.kind() == StoreErrorKind::Misconfigured, now) {
            Some((false, failed, lasting)) => tracing::warn!(
                target: "tollgate::store", prefix, %error, failed, ?lasting,
                "the store is unavailable"
            ),
            Some((true, failed, lasting)) => tracing::error!(
                target: "tollgate::store", prefix, %error, failed, ?lasting,
                "the store is set up wrongly, or has not answered yet: requests are refused"
            ),
            None => {}
        }
    }

    /// The outage that is over.
    fn after_success(&self, now: Instant) -> Option<Outage> {
        // Under load some calls succeed while others fail, and one node of a cluster may be down
        // while the others are not.
        lock(&self.outage).take_if(|outage| now - outage.last_failure >= SECOND)
    }

    /// What is to be logged: whether the store is misconfigured, how many calls have failed since
    /// the last event, and for how long the outage lasts.
    fn after_failure(&self, is_misconfigured: bool, now: Instant) -> Option<(bool, u64, Duration)> {
        let mut outage = lock(&self.outage);
        let outage = outage.get_or_insert(Outage {
            is_misconfigured,
            since: now,
            last_failure: now,
            last_misconfigured: None,
            failed: 0,
            logged: None,
        });
        outage.failed += 1;
        outage.last_failure = now;
        if is_misconfigured {
            outage.last_misconfigured = Some(now);
        }
        // Under load some calls learn what is set up wrongly while others only time out: the first
        // is what the operator needs to know.
        let is_misconfigured = (outage.last_misconfigured).is_some_and(|last| now - last < SECOND);
        let (logged_at, logged) = outage.logged.unwrap_or((now, 0));
        if logged > 0 && is_misconfigured == outage.is_misconfigured && now - logged_at < SECOND {
            return None;
        }
        outage.is_misconfigured = is_misconfigured;
        outage.logged = Some((now, outage.failed));
        Some((is_misconfigured, outage.failed - logged, now - outage.since))
    }
}

/// An outage of Redis: what has failed, and what of it is logged.
struct Outage {
    is_misconfigured: bool,
    since: Instant,
    last_failure: Instant,
    last_misconfigured: Option<Instant>,
    failed: u64,
    /// When it was last logged, and how many had failed by then.
    logged: Option<(Instant, u64)>,
}

/// Lets one event a second through.
#[derive(Default)]
pub(super) struct Throttle(Mutex<(Option<Instant>, u64)>);

impl Throttle {
    /// How many events were held back since the last one; `None` if this one is, too.
    pub(super) fn pass(&self) -> Option<u64> {
        let mut state = lock(&self.0);
        let (last, held_back) = &mut *state;
        if last.is_some_and(|last| last.elapsed() < SECOND) {
            *held_back += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISCONFIGURED: bool = true;
    const LATE: bool = false;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn an_outage_is_logged_at_once_and_then_once_a_second_with_a_count() {
        let (health, start) = (Health::default(), Instant::now());
        let began = health.after_failure(LATE, start);
        assert_eq!(began, Some((false, 1, Duration::ZERO)));
        for millis in 1..1_000 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
            assert!(health.after_success(at(start, millis)).is_none());
        }
        let still = health.after_failure(LATE, at(start, 1_000));
        assert_eq!(still, Some((false, 1_000, SECOND)));
        assert!(health.after_success(at(start, 1_999)).is_none());
        let ended = health.after_success(at(start, 2_000)).unwrap();
        assert_eq!((ended.is_misconfigured, ended.failed), (false, 1_001));
        assert_eq!(ended.last_failure - ended.since, SECOND);
        assert!(health.after_success(at(start, 9_000)).is_none());
    }

    #[test]
    fn a_misconfiguration_outweighs_timeouts_for_a_second() {
        let (health, start) = (Health::default(), Instant::now());
        let kind = |told: Option<(bool, u64, Duration)>| told.map(|(kind, ..)| kind);
        assert_eq!(kind(health.after_failure(LATE, start)), Some(false));
        let worse = health.after_failure(MISCONFIGURED, at(start, 10));
        assert_eq!(kind(worse), Some(true));
        for millis in 11..1_010 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
        }
        let better = health.after_failure(LATE, at(start, 1_010));
        assert_eq!(kind(better), Some(false));
    }

    #[test]
    fn one_event_a_second_passes_and_the_others_are_counted() {
        let throttle = Throttle::default();
        assert_eq!(throttle.pass(), Some(0));
        assert_eq!([(); 9].map(|()| throttle.pass()), [None; 9]);
        std::thread::sleep(SECOND);
        assert_eq!(throttle.pass(), Some(9));
    }
}
