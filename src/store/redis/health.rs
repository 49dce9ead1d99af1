//! What the operator is told of a store: one event for each change of its health, then at most one
//! a second.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::error::{StoreError, StoreErrorKind};

/// While it lasts, the operator is told so at most this often; and when for so long nothing has
/// failed, it is over.
const SECOND: Duration = Duration::from_secs(1);
/// A key is named at most once in this time, and no more than so many keys are.
const KEY_LOG_INTERVAL: Duration = Duration::from_secs(60);
const MAX_NAMED_KEYS: usize = 8;
/// The most bytes of a key that are written into an event.
const MAX_KEY_BYTES: usize = 128;

/// How well a store is, by what its calls met.
pub(super) struct Health {
    /// Which store it is, for those who have several.
    prefix: Arc<str>,
    is_ill: AtomicBool,
    illness: Mutex<Option<Illness>>,
    strangers: Mutex<Strangers>,
}

struct Illness {
    is_misconfigured: bool,
    since: Instant,
    last_failure: Instant,
    last_misconfigured: Option<Instant>,
    failed: u64,
    told_at: Instant,
    untold: u64,
}

/// What the operator is told.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Ill {
        is_misconfigured: bool,
    },
    StillIll {
        is_misconfigured: bool,
        failed: u64,
        lasting: Duration,
    },
    Well {
        was_misconfigured: bool,
        failed: u64,
        lasted: Duration,
    },
}

impl Health {
    pub(super) fn of(prefix: Arc<str>) -> Self {
        Self {
            prefix,
            is_ill: AtomicBool::new(false),
            illness: Mutex::default(),
            strangers: Mutex::default(),
        }
    }

    /// A call came to its end, about these keys.
    pub(super) fn ended<'a, T>(
        &self,
        result: &Result<T, StoreError>,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
    ) {
        match result {
            Ok(_) if !self.is_ill.load(Relaxed) => {}
            Ok(_) => self.succeeded(),
            Err(error) => self.failed(error, keys),
        }
    }

    #[cold]
    fn succeeded(&self) {
        let news = self.after_success(Instant::now());
        // Told without the lock: what listens is the caller's.
        if let Some(news) = news {
            self.tell(&news, None);
        }
    }

    #[cold]
    fn failed<'a>(
        &self,
        error: &StoreError,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
    ) {
        let now = Instant::now();
        let is_misconfigured = match error.kind() {
            StoreErrorKind::InvalidInput => {
                let named = lock(&self.strangers).are_named(keys, now);
                if let Some((keys, unnamed)) = named {
                    tracing::warn!(
                        target: "tollgate::store", prefix = &*self.prefix, %keys, %error, unnamed,
                        "something else stands under this key: its requests are refused until it is deleted"
                    );
                }
                return;
            }
            StoreErrorKind::Misconfigured => true,
            StoreErrorKind::Unavailable => false,
        };
        let news = self.after_failure(is_misconfigured, now);
        if let Some(news) = news {
            self.tell(&news, Some(error));
        }
    }

    fn after_success(&self, now: Instant) -> Option<News> {
        let mut illness = lock(&self.illness);
        let ill = illness.as_ref()?;
        // In a crowd some are still answered while others fail, and one node may be ill while
        // others are well.
        if now.saturating_duration_since(ill.last_failure) < SECOND {
            return None;
        }
        let news = News::Well {
            was_misconfigured: ill.is_misconfigured,
            failed: ill.failed,
            lasted: ill.last_failure.saturating_duration_since(ill.since),
        };
        *illness = None;
        self.is_ill.store(false, Relaxed);
        Some(news)
    }

    fn after_failure(&self, is_misconfigured: bool, now: Instant) -> Option<News> {
        let mut illness = lock(&self.illness);
        let Some(ill) = &mut *illness else {
            *illness = Some(Illness {
                is_misconfigured,
                since: now,
                last_failure: now,
                last_misconfigured: is_misconfigured.then_some(now),
                failed: 1,
                told_at: now,
                untold: 0,
            });
            self.is_ill.store(true, Relaxed);
            return Some(News::Ill { is_misconfigured });
        };
        ill.failed += 1;
        ill.untold += 1;
        ill.last_failure = now;
        if is_misconfigured {
            ill.last_misconfigured = Some(now);
        }
        // What is set up wrongly outweighs what is late: both are met in a crowd.
        let is_misconfigured = (ill.last_misconfigured)
            .is_some_and(|last| now.saturating_duration_since(last) < SECOND);
        let has_changed = is_misconfigured != ill.is_misconfigured;
        if !has_changed && now.saturating_duration_since(ill.told_at) < SECOND {
            return None;
        }
        ill.is_misconfigured = is_misconfigured;
        ill.told_at = now;
        let failed = std::mem::take(&mut ill.untold);
        Some(match has_changed {
            true => News::Ill { is_misconfigured },
            false => News::StillIll {
                is_misconfigured,
                failed,
                lasting: now.saturating_duration_since(ill.since),
            },
        })
    }

    fn tell(&self, news: &News, error: Option<&StoreError>) {
        let prefix = &*self.prefix;
        let error = error.map(tracing::field::display);
        match news {
            News::Ill {
                is_misconfigured: false,
            } => tracing::warn!(
                target: "tollgate::store", prefix, error,
                "the store became unavailable"
            ),
            News::Ill {
                is_misconfigured: true,
            } => tracing::error!(
                target: "tollgate::store", prefix, error,
                "the store is set up wrongly: requests are refused until this is mended"
            ),
            News::StillIll {
                is_misconfigured: false,
                failed,
                lasting,
            } => tracing::warn!(
                target: "tollgate::store", prefix, error, failed, ?lasting,
                "the store is still unavailable"
            ),
            News::StillIll {
                is_misconfigured: true,
                failed,
                lasting,
            } => tracing::error!(
                target: "tollgate::store", prefix, error, failed, ?lasting,
                "the store is still set up wrongly: requests are refused until this is mended"
            ),
            News::Well {
                was_misconfigured,
                failed,
                lasted,
            } => tracing::info!(
                target: "tollgate::store", prefix, was_misconfigured, failed, ?lasted,
                "the store is well again"
            ),
        }
    }
}

/// The keys that hold something else, as far as they were named within a minute.
#[derive(Default)]
struct Strangers {
    since: Option<Instant>,
    named: Vec<u64>,
    unnamed: u64,
}

impl Strangers {
    /// The keys, to be written into an event, if it is time for it; with how many were met and not
    /// told before.
    fn are_named<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a Bytes, IntoIter: Clone>,
        now: Instant,
    ) -> Option<(String, u64)> {
        if (self.since).is_none_or(|since| now.saturating_duration_since(since) >= KEY_LOG_INTERVAL)
        {
            self.since = Some(now);
            self.named.clear();
        }
        let (keys, mut hasher) = (keys.into_iter(), DefaultHasher::new());
        keys.clone().for_each(|key| key.hash(&mut hasher));
        let hash = hasher.finish();
        if self.named.contains(&hash) || self.named.len() == MAX_NAMED_KEYS {
            self.unnamed += 1;
            return None;
        }
        self.named.push(hash);
        let mut text = String::new();
        for key in keys {
            let separator = if text.is_empty() { "" } else { " " };
            let (start, rest) = key.split_at(key.len().min(MAX_KEY_BYTES));
            let rest = if rest.is_empty() { "" } else { "…" };
            let _ = write!(text, "{separator}{}{rest}", start.escape_ascii());
        }
        Some((text, std::mem::take(&mut self.unnamed)))
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

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn a_change_is_told_once_and_then_once_a_second_with_a_count() {
        let (health, start) = (Health::of("t".into()), Instant::now());
        let ill = News::Ill {
            is_misconfigured: false,
        };
        assert_eq!(health.after_failure(LATE, start), Some(ill));
        for millis in 1..1_000 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
            assert_eq!(health.after_success(at(start, millis)), None);
        }
        let still = News::StillIll {
            is_misconfigured: false,
            failed: 1_000,
            lasting: SECOND,
        };
        assert_eq!(health.after_failure(LATE, at(start, 1_000)), Some(still));
        assert_eq!(health.after_success(at(start, 1_999)), None);
        let well = News::Well {
            was_misconfigured: false,
            failed: 1_001,
            lasted: SECOND,
        };
        assert_eq!(health.after_success(at(start, 2_000)), Some(well));
        assert_eq!(health.after_success(at(start, 9_000)), None);
        assert!(!health.is_ill.load(Relaxed));
    }

    #[test]
    fn what_is_set_up_wrongly_outweighs_what_is_late_for_a_second() {
        let (health, start) = (Health::of("t".into()), Instant::now());
        let ill = |is_misconfigured| Some(News::Ill { is_misconfigured });
        assert_eq!(health.after_failure(LATE, start), ill(false));
        assert_eq!(
            health.after_failure(MISCONFIGURED, at(start, 10)),
            ill(true)
        );
        for millis in 11..1_010 {
            assert_eq!(health.after_failure(LATE, at(start, millis)), None);
        }
        assert_eq!(health.after_failure(LATE, at(start, 1_010)), ill(false));
    }

    #[test]
    fn a_key_is_named_once_a_minute_and_not_too_many_are() {
        let (mut strangers, start) = (Strangers::default(), Instant::now());
        let key = |number: u32| Bytes::from(format!("tollgate:1{{{number}\n\u{1F}}}"));
        let named = strangers.are_named([&key(1)], start);
        assert_eq!(named, Some((r"tollgate:1{1\n\x1f}".to_owned(), 0)));
        assert_eq!(strangers.are_named([&key(1)], at(start, 59_999)), None);
        for number in 2..=8 {
            assert!(strangers.are_named([&key(number)], start).is_some());
        }
        for number in 9..1_000 {
            assert_eq!(strangers.are_named([&key(number)], start), None);
        }
        assert_eq!(strangers.named.len(), MAX_NAMED_KEYS);
        let (_, unnamed) = strangers.are_named([&key(1)], at(start, 60_000)).unwrap();
        assert_eq!(unnamed, 991);
    }

    #[test]
    fn a_long_key_is_cut_and_several_stand_beside_each_other() {
        let mut strangers = Strangers::default();
        let long = Bytes::from(vec![0xFF; 10_000]);
        let (text, _) = strangers
            .are_named([&long, &Bytes::from_static(b"b")], Instant::now())
            .unwrap();
        assert_eq!(text, format!("{}… b", r"\xff".repeat(MAX_KEY_BYTES)));
    }
}
