//! The events about a store's health: one when an outage begins, at most one a second while it
//! lasts, and one when it ends.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::error::{StoreError, StoreErrorKind};

use super::lock;

/// An outage is logged at most this often, and is over once nothing has failed for this long.
const SECOND: Duration = Duration::from_secs(1);
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
    outage: Mutex<Option<Outage>>,
    foreign_keys: Mutex<ForeignKeys>,
}

impl Health {
    pub(super) fn new(prefix: Arc<str>) -> Self {
        Self {
            prefix,
            is_in_outage: AtomicBool::new(false),
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
            // Logged without the lock: the subscriber is not our code.
            Ok(_) => {
                if let Some(change) = self.after_success(Instant::now()) {
                    self.log(&change, None);
                }
            }
            Err(error) => self.failed(error, keys),
        }
    }

    fn failed<'a>(
        &self,
        error: &StoreError,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
    ) {
        let now = Instant::now();
        if error.kind() != StoreErrorKind::InvalidInput {
            let is_misconfigured = error.kind() == StoreErrorKind::Misconfigured;
            if let Some(change) = self.after_failure(is_misconfigured, now) {
                self.log(&change, Some(error));
            }
            return;
        }
        let to_log = lock(&self.foreign_keys).text_to_log(keys, now);
        if let Some((keys, unlogged)) = to_log {
            tracing::warn!(
                target: "tollgate::store", prefix = &*self.prefix, %keys, %error, unlogged,
                "the key has a value that no store wrote: its requests are refused until it is deleted"
            );
        }
    }

    fn after_success(&self, now: Instant) -> Option<Change> {
        let mut outage = lock(&self.outage);
        // Under load some calls succeed while others fail, and one node of a cluster may be down
        // while the others are not.
        let ended = outage.take_if(|current| now - current.last_failure >= SECOND)?;
        self.is_in_outage.store(false, Relaxed);
        Some(Change {
            phase: Phase::Ended,
            is_misconfigured: ended.is_misconfigured,
            failed: ended.failed,
            lasting: ended.last_failure - ended.since,
        })
    }

    fn after_failure(&self, is_misconfigured: bool, now: Instant) -> Option<Change> {
        let mut outage = lock(&self.outage);
        if let Some(current) = &mut *outage {
            return current.after_failure(is_misconfigured, now);
        }
        self.is_in_outage.store(true, Relaxed);
        *outage = Some(Outage {
            is_misconfigured,
            since: now,
            last_failure: now,
            last_misconfigured: is_misconfigured.then_some(now),
            failed: 1,
            logged_at: now,
            unlogged: 0,
        });
        Some(Change {
            phase: Phase::Began,
            is_misconfigured,
            failed: 0,
            lasting: Duration::ZERO,
        })
    }

    fn log(&self, change: &Change, error: Option<&StoreError>) {
        let (prefix, error) = (&*self.prefix, error.map(tracing::field::display));
        let (failed, lasting) = (change.failed, change.lasting);
        match (&change.phase, change.is_misconfigured) {
            (Phase::Began, false) => tracing::warn!(
                target: "tollgate::store", prefix, error,
                "the store became unavailable"
            ),
            (Phase::Began, true) => tracing::error!(
                target: "tollgate::store", prefix, error,
                "the store is set up wrongly: requests are refused until this is fixed"
            ),
            (Phase::Lasts, false) => tracing::warn!(
                target: "tollgate::store", prefix, error, failed, ?lasting,
                "the store is still unavailable"
            ),
            (Phase::Lasts, true) => tracing::error!(
                target: "tollgate::store", prefix, error, failed, ?lasting,
                "the store is still set up wrongly: requests are refused until this is fixed"
            ),
            (Phase::Ended, was_misconfigured) => tracing::info!(
                target: "tollgate::store", prefix, was_misconfigured, failed, lasted = ?lasting,
                "the store has recovered"
            ),
        }
    }
}

/// An outage of Redis: what has failed, and what of it is logged.
struct Outage {
    is_misconfigured: bool,
    since: Instant,
    last_failure: Instant,
    last_misconfigured: Option<Instant>,
    failed: u64,
    logged_at: Instant,
    /// How many have failed since then.
    unlogged: u64,
}

impl Outage {
    fn after_failure(&mut self, is_misconfigured: bool, now: Instant) -> Option<Change> {
        self.failed += 1;
        self.unlogged += 1;
        self.last_failure = now;
        if is_misconfigured {
            self.last_misconfigured = Some(now);
        }
        // Under load some calls learn what is set up wrongly while others only time out: the first
        // is what the operator needs to know.
        let is_misconfigured = self
            .last_misconfigured
            .is_some_and(|last| now - last < SECOND);
        let has_changed = is_misconfigured != self.is_misconfigured;
        if !has_changed && now - self.logged_at < SECOND {
            return None;
        }
        self.is_misconfigured = is_misconfigured;
        self.logged_at = now;
        let failed = std::mem::take(&mut self.unlogged);
        Some(Change {
            phase: match has_changed {
                true => Phase::Began,
                false => Phase::Lasts,
            },
            is_misconfigured,
            failed,
            lasting: now - self.since,
        })
    }
}

/// What is logged about an outage.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    phase: Phase,
    is_misconfigured: bool,
    /// How many calls have failed since the last event, or in the whole outage when it has ended.
    failed: u64,
    lasting: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Began,
    Lasts,
    Ended,
}

/// The keys with values that no store wrote that were logged within a minute.
#[derive(Default)]
struct ForeignKeys {
    since: Option<Instant>,
    logged: Vec<u64>,
    unlogged: u64,
}

impl ForeignKeys {
    /// The keys as text for an event, and how many such calls were not logged since the last one;
    /// `None` if this one is not to be logged either.
    fn text_to_log<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
        now: Instant,
    ) -> Option<(String, u64)> {
        if (self.since).is_none_or(|since| now - since >= KEY_LOG_INTERVAL) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MISCONFIGURED: bool = true;
    const LATE: bool = false;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    /// The phase, how many calls have failed, and for how long the outage lasts.
    fn told(change: Option<Change>) -> Option<(Phase, bool, u64, u64)> {
        change.map(|it| {
            let millis = u64::try_from(it.lasting.as_millis()).unwrap();
            (it.phase, it.is_misconfigured, it.failed, millis)
        })
    }

    #[test]
    fn a_change_is_logged_once_and_then_once_a_second_with_a_count() {
        let (health, start) = (Health::new("t".into()), Instant::now());
        let began = told(health.after_failure(LATE, start));
        assert_eq!(began, Some((Phase::Began, false, 0, 0)));
        for millis in 1..1_000 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
            assert_eq!(health.after_success(at(start, millis)), None);
        }
        let still = told(health.after_failure(LATE, at(start, 1_000)));
        assert_eq!(still, Some((Phase::Lasts, false, 1_000, 1_000)));
        assert_eq!(health.after_success(at(start, 1_999)), None);
        let ended = told(health.after_success(at(start, 2_000)));
        assert_eq!(ended, Some((Phase::Ended, false, 1_001, 1_000)));
        assert_eq!(health.after_success(at(start, 9_000)), None);
        assert!(!health.is_in_outage.load(Relaxed));
    }

    #[test]
    fn a_misconfiguration_outweighs_timeouts_for_a_second() {
        let (health, start) = (Health::new("t".into()), Instant::now());
        let phase = |change: Option<Change>| change.map(|it| (it.phase, it.is_misconfigured));
        let began = |is_misconfigured| Some((Phase::Began, is_misconfigured));
        assert_eq!(phase(health.after_failure(LATE, start)), began(false));
        let worse = health.after_failure(MISCONFIGURED, at(start, 10));
        assert_eq!(phase(worse), began(true));
        for millis in 11..1_010 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
        }
        let better = health.after_failure(LATE, at(start, 1_010));
        assert_eq!(phase(better), began(false));
    }

    #[test]
    fn a_key_is_logged_once_a_minute_and_at_most_eight_are() {
        let (mut foreign_keys, start) = (ForeignKeys::default(), Instant::now());
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
            .text_to_log([&long, &Bytes::from_static(b"b")], Instant::now())
            .unwrap();
        assert_eq!(text, format!("{}… b", r"\xff".repeat(MAX_KEY_BYTES)));
    }
}
