//! What a store has done so far, in numbers that cost next to nothing to keep.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    error::{StoreError, StoreErrorKind},
    store::Verdict,
};

use super::Shared;

/// What a [`RedisStore`](super::RedisStore) has decided so far, and how its connections are; see
/// [`usage`](super::RedisStore::usage).
///
/// A decision is what is asked for each request: `check` and `check_cost`, and each request through a layer. Those whose
/// caller went away before the answer are in none of the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisUsage {
    /// How many decisions have admitted.
    pub admitted: u64,
    /// How many decisions have refused: the limit was reached.
    pub refused: u64,
    /// How many decisions failed as [`Unavailable`](StoreErrorKind::Unavailable): there was no answer, or not in time.
    pub unavailable: u64,
    /// How many decisions failed as [`Misconfigured`](StoreErrorKind::Misconfigured).
    pub misconfigured: u64,
    /// How many decisions failed as [`InvalidInput`](StoreErrorKind::InvalidInput): something else stands under their key.
    pub invalid: u64,
    /// How many decisions are waited for right now.
    pub in_flight: usize,
    /// How often a connection was made anew, to any server.
    pub reconnects: u64,
    /// When Redis last answered anything, if it ever did.
    pub last_answer: Option<Instant>,
}

/// How a decision ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Admitted,
    Refused,
    Failed(StoreErrorKind),
}

pub(super) struct Counters {
    start: Instant,
    admitted: AtomicU64,
    refused: AtomicU64,
    unavailable: AtomicU64,
    misconfigured: AtomicU64,
    invalid: AtomicU64,
    in_flight: AtomicUsize,
    /// Microseconds since the start, and one more; 0 if there was none.
    last_answer: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unavailable: AtomicU64::new(0),
            misconfigured: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            last_answer: AtomicU64::new(0),
        }
    }
}

impl Counters {
    /// One more decision that is waited for, until this is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        InFlight(self)
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Admitted => &self.admitted,
            Outcome::Refused => &self.refused,
            Outcome::Failed(StoreErrorKind::Unavailable) => &self.unavailable,
            Outcome::Failed(StoreErrorKind::Misconfigured) => &self.misconfigured,
            Outcome::Failed(StoreErrorKind::InvalidInput) => &self.invalid,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn answered(&self) {
        let micros = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.last_answer.store(micros + 1, Relaxed);
    }

    pub(super) fn read(&self, reconnects: u64) -> RedisUsage {
        let last_answer = self.last_answer.load(Relaxed).checked_sub(1);
        RedisUsage {
            admitted: self.admitted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            unavailable: self.unavailable.load(Relaxed),
            misconfigured: self.misconfigured.load(Relaxed),
            invalid: self.invalid.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            reconnects,
            last_answer: last_answer
                .and_then(|micros| self.start.checked_add(Duration::from_micros(micros))),
        }
    }
}

/// A decision that is waited for.
pub(super) struct InFlight<'a>(&'a Counters);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    /// One more decision that is waited for, until what this brings is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.counters.begin()
    }

    /// Counts how a decision ended.
    pub(super) fn count<S>(&self, decided: &Result<Verdict<S>, StoreError>) {
        self.counters.ended(match decided {
            Ok(verdict) if verdict.admitted => Outcome::Admitted,
            Ok(_) => Outcome::Refused,
            Err(error) => Outcome::Failed(error.kind()),
        });
    }
}
