//! What every limiter of a comparison is told to hold.

use std::time::Duration;

/// One unit every `interval`, and `burst` at once.
///
/// The crates that count in windows are told to let `burst` through in an hour, which is the same
/// to a run of seconds.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// How long a unit takes to come back.
    pub interval: Duration,
    /// How many units there are.
    pub burst: u32,
}

/// The window of the crates that count in windows.
pub const WINDOW: Duration = Duration::from_secs(3_600);

/// What all decisions of a row say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Every request passes.
    Admitted,
    /// The burst of each key is taken before the clock is started.
    Refused,
}

impl Limit {
    /// One that gives this answer in each of `keys` buckets, none of which is as good as fresh
    /// meanwhile, so that those who clean up have nothing to clean.
    pub fn that_is(answer: Answer, keys: usize) -> Self {
        let (interval_s, burst) = match answer {
            // Not 1: one of the peers holds nobody to a burst of 1, see `histories`.
            Answer::Refused => (3_600, 2),
            Answer::Admitted if keys > 100_000 => (360, 1_000_000),
            Answer::Admitted => (1, 1_000_000_000),
        };
        Self {
            interval: Duration::from_secs(interval_s),
            burst,
        }
    }
}
