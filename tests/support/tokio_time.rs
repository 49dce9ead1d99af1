//! A store that reads tokio's time, and a bucket whose requests wait.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;

use tokio::time::Instant;
use tollgate::{
    Quota, Timestamp,
    algorithm::{TokenBucket, WaitAtMost},
    clock::Clock,
    store::{LocalBuckets, LocalStore},
};

/// When the clocks begin.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Tokio's time, by which the sleeps go too.
#[derive(Clone, Debug)]
pub(crate) struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        START.saturating_add(self.0.elapsed())
    }
}

pub(crate) fn store<A: LocalBuckets<K>, K>() -> LocalStore<A, K, TokioClock> {
    LocalStore::builder()
        .clock(TokioClock(Instant::now()))
        .build()
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn ten_a_second(burst: u64, wait: Duration) -> WaitAtMost<TokenBucket> {
    let bucket = TokenBucket::new(Quota::per_second(10)).burst(burst);
    bucket.wait_at_most(wait)
}

/// Timers are good to a millisecond.
pub(crate) fn is_due(at: Duration, due: u64) -> bool {
    (due..=due + 2).contains(&u64::try_from(at.as_millis()).unwrap())
}
