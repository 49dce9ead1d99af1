//! The events about a store's health: one when an outage begins, at most one a second while it
//! lasts, and one when it ends.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;

use crate::{
    clock::{Clock, SystemClock, Timestamp},
    error::{StoreError, StoreErrorKind},
};

mod outage;

use outage::{Change, Outage, SECOND, UnloggedFailures, elapsed};

/// In this time each key is logged at most once, and at most [`MAX_LOGGED_KEYS`] keys are.
const KEY_LOG_INTERVAL: Duration = Duration::from_secs(60);
const MAX_LOGGED_KEYS: usize = 8;
/// The most bytes of a key that are written into an event.
const MAX_KEY_BYTES: usize = 128;

/// Whether a store has an outage, by how its calls ended.
pub(super) struct Health {
    /// Names the store in the events.
    prefix: Arc<str>,
    is_in_outage: AtomicBool,
    unlogged: UnloggedFailures,
    clock: SystemClock,
    outage: Mutex<Option<Outage>>,
    foreign_keys: Mutex<ForeignKeys>,
}

impl Health {
    pub(super) fn new(prefix: Arc<str>) -> Self {
        Self {
            prefix,
            is_in_outage: AtomicBool::new(false),
            unlogged: UnloggedFailures::default(),
            clock: SystemClock::new(),
            outage: Mutex::default(),
            foreign_keys: Mutex::default(),
        }
    }

    /// Records how a call about these keys ended.
    #[inline]
    pub(super) fn record<'a, T>(
        &self,
        result: &Result<T, StoreError>,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
    ) {
        match result {
            Ok(_) if !self.is_in_outage.load(Relaxed) => {}
            Ok(_) => self.succeeded(),
            Err(error) => {
                let now = self.clock.now();
                // While Redis is down nearly every decision ends here.
                if error.kind() == StoreErrorKind::Unavailable && self.unlogged.counts(now) {
                    return;
                }
                self.failed(error, keys, now);
            }
        }
    }

    fn succeeded(&self) {
        let change = self.after_success(self.clock.now());
        // Logged without the lock: the subscriber is not our code.
        if let Some(change) = change {
            self.log(&change, None);
        }
    }

    fn failed<'a>(
        &self,
        error: &StoreError,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
        now: Timestamp,
    ) {
        let is_misconfigured = match error.kind() {
            StoreErrorKind::InvalidInput => {
                let to_log = lock(&self.foreign_keys).text_to_log(keys, now);
                if let Some((keys, unlogged)) = to_log {
                    tracing::warn!(
                        target: "tollgate::store", prefix = &*self.prefix, %keys, %error, unlogged,
                        "the key has a value that no store wrote: its requests are refused until it is deleted"
                    );
                }
                return;
            }
            StoreErrorKind::Misconfigured => true,
            StoreErrorKind::Unavailable => false,
        };
        let change = self.after_failure(is_misconfigured, now);
        if let Some(change) = change {
            self.log(&change, Some(error));
        }
    }

    fn after_success(&self, now: Timestamp) -> Option<Change> {
        let mut outage = lock(&self.outage);
        let current = outage.as_mut()?;
        current.count(self.unlogged.take());
        // Under load some calls succeed while others fail, and one node of a cluster may be down
        // while the others are not.
        if elapsed(current.last_failure, now) < SECOND {
            return None;
        }
        let change = Change::Ended {
            was_misconfigured: current.is_misconfigured,
            failed: current.failed,
            lasted: elapsed(current.since, current.last_failure),
        };
        *outage = None;
        self.unlogged.until(Timestamp::default());
        self.is_in_outage.store(false, Relaxed);
        Some(change)
    }

    fn after_failure(&self, is_misconfigured: bool, now: Timestamp) -> Option<Change> {
        if !is_misconfigured && self.unlogged.counts(now) {
            return None;
        }
        let mut outage = lock(&self.outage);
        let uncounted = self.unlogged.take();
        let change = match &mut *outage {
            Some(current) => {
                current.count(uncounted);
                current.after_failure(is_misconfigured, now)
            }
            None => {
                *outage = Some(Outage::new(is_misconfigured, now));
                self.is_in_outage.store(true, Relaxed);
                Some(Change::Began { is_misconfigured })
            }
        };
        self.unlogged.until(match &*outage {
            Some(current) if !current.is_misconfigured => current.logged_at.saturating_add(SECOND),
            // While something is set up wrongly each failure is looked at.
            _ => Timestamp::default(),
        });
        change
    }

    fn log(&self, change: &Change, error: Option<&StoreError>) {
        let prefix = &*self.prefix;
        let error = error.map(tracing::field::display);
        match change {
            Change::Began {
                is_misconfigured: false,
            } => tracing::warn!(
                target: "tollgate::store", prefix, error,
                "the store became unavailable"
            ),
            Change::Began {
                is_misconfigured: true,
            } => tracing::error!(
                target: "tollgate::store", prefix, error,
                "the store is set up wrongly: requests are refused until this is fixed"
            ),
            Change::Lasts {
                is_misconfigured: false,
                failed,
                lasting,
            } => tracing::warn!(
                target: "tollgate::store", prefix, error, failed, ?lasting,
                "the store is still unavailable"
            ),
            Change::Lasts {
                is_misconfigured: true,
                failed,
                lasting,
            } => tracing::error!(
                target: "tollgate::store", prefix, error, failed, ?lasting,
                "the store is still set up wrongly: requests are refused until this is fixed"
            ),
            Change::Ended {
                was_misconfigured,
                failed,
                lasted,
            } => tracing::info!(
                target: "tollgate::store", prefix, was_misconfigured, failed, ?lasted,
                "the store has recovered"
            ),
        }
    }
}

/// The keys with values that no store wrote that were logged within a minute.
#[derive(Default)]
struct ForeignKeys {
    since: Option<Timestamp>,
    logged: Vec<u64>,
    unlogged: u64,
}

impl ForeignKeys {
    /// The keys as text for an event, and how many such calls were not logged since the last one;
    /// `None` if this one is not to be logged either.
    fn text_to_log<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
        now: Timestamp,
    ) -> Option<(String, u64)> {
        if (self.since).is_none_or(|since| elapsed(since, now) >= KEY_LOG_INTERVAL) {
            self.since = Some(now);
            self.logged.clear();
        }
        let (keys, mut hasher) = (keys.into_iter(), DefaultHasher::new());
        keys.clone().for_each(|key| key.hash(&mut hasher));
        let hash = hasher.finish();
        if self.logged.contains(&hash) || self.logged.len() == MAX_LOGGED_KEYS {
            self.unlogged += 1;
            return None;
        }
        self.logged.push(hash);
        let mut text = String::new();
        for key in keys {
            let separator = if text.is_empty() { "" } else { " " };
            let (start, rest) = key.split_at(key.len().min(MAX_KEY_BYTES));
            let rest = if rest.is_empty() { "" } else { "…" };
            let _ = write!(text, "{separator}{}{rest}", start.escape_ascii());
        }
        Some((text, std::mem::take(&mut self.unlogged)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISCONFIGURED: bool = true;
    const LATE: bool = false;
    const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn at(start: Timestamp, millis: u64) -> Timestamp {
        start.saturating_add(Duration::from_millis(millis))
    }

    #[test]
    fn a_change_is_logged_once_and_then_once_a_second_with_a_count() {
        let (health, start) = (Health::new("t".into()), START);
        let began = Change::Began {
            is_misconfigured: false,
        };
        assert_eq!(health.after_failure(LATE, start), Some(began));
        for millis in 1..1_000 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
            assert_eq!(health.after_success(at(start, millis)), None);
        }
        let still = Change::Lasts {
            is_misconfigured: false,
            failed: 1_000,
            lasting: SECOND,
        };
        assert_eq!(health.after_failure(LATE, at(start, 1_000)), Some(still));
        assert_eq!(health.after_success(at(start, 1_999)), None);
        let ended = Change::Ended {
            was_misconfigured: false,
            failed: 1_001,
            lasted: SECOND,
        };
        assert_eq!(health.after_success(at(start, 2_000)), Some(ended));
        assert_eq!(health.after_success(at(start, 9_000)), None);
        assert!(!health.is_in_outage.load(Relaxed));
    }

    #[test]
    fn a_clock_that_steps_back_silences_no_outage_and_keeps_none_from_ending() {
        let (health, start) = (Health::new("t".into()), START);
        let began = Change::Began {
            is_misconfigured: false,
        };
        assert_eq!(health.after_failure(LATE, at(start, 0)), Some(began));
        assert_eq!(health.after_failure(LATE, at(start, 500)), None);
        let back = Timestamp::from_micros(start.as_micros() - 3_600_000_000);
        let told = health.after_failure(LATE, back);
        let is_told = |told: &Option<Change>| matches!(told, Some(Change::Lasts { failed: 2, .. }));
        assert!(is_told(&told), "{told:?}");
        assert_eq!(health.after_failure(LATE, at(back, 999)), None);
        let told = health.after_failure(LATE, at(back, 1_000));
        assert!(is_told(&told), "{told:?}");
        assert_eq!(health.after_success(at(back, 1_500)), None);
        let further_back = Timestamp::from_micros(back.as_micros() - 3_600_000_000);
        let told = health.after_success(further_back);
        assert!(
            matches!(told, Some(Change::Ended { failed: 5, .. })),
            "{told:?}"
        );
    }

    #[test]
    fn a_misconfiguration_outweighs_timeouts_for_a_second() {
        let (health, start) = (Health::new("t".into()), START);
        let began = |is_misconfigured| Some(Change::Began { is_misconfigured });
        assert_eq!(health.after_failure(LATE, start), began(false));
        assert_eq!(
            health.after_failure(MISCONFIGURED, at(start, 10)),
            began(true)
        );
        for millis in 11..1_010 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
        }
        assert_eq!(health.after_failure(LATE, at(start, 1_010)), began(false));
    }

    #[test]
    fn a_key_is_logged_once_a_minute_and_at_most_eight_are() {
        let (mut foreign_keys, start) = (ForeignKeys::default(), START);
        let key = |number: u32| Bytes::from(format!("tollgate:1{{{number}\n\u{1F}}}"));
        let text = foreign_keys.text_to_log([&key(1)], start);
        assert_eq!(text, Some((r"tollgate:1{1\n\x1f}".to_owned(), 0)));
        assert_eq!(foreign_keys.text_to_log([&key(1)], at(start, 59_999)), None);
        for number in 2..=8 {
            assert!(foreign_keys.text_to_log([&key(number)], start).is_some());
        }
        for number in 9..1_000 {
            assert_eq!(foreign_keys.text_to_log([&key(number)], start), None);
        }
        assert_eq!(foreign_keys.logged.len(), MAX_LOGGED_KEYS);
        let (_, unlogged) = foreign_keys
            .text_to_log([&key(1)], at(start, 60_000))
            .unwrap();
        assert_eq!(unlogged, 991);
    }

    #[test]
    fn a_long_key_is_cut_and_several_stand_beside_each_other() {
        let mut foreign_keys = ForeignKeys::default();
        let long = Bytes::from(vec![0xFF; 10_000]);
        let (text, _) = foreign_keys
            .text_to_log([&long, &Bytes::from_static(b"b")], START)
            .unwrap();
        assert_eq!(text, format!("{}… b", r"\xff".repeat(MAX_KEY_BYTES)));
    }
}
