//! How long to pause before the next attempt to reach a server.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Pauses that double: none at first, then at most 20 ms, and at most half a second in the end.
#[derive(Default)]
pub(super) struct Backoff {
    pause: Duration,
}

impl Backoff {
    /// How long to pause now: between a half and the whole of what it may be, so that many
    /// processes do not come at the same instant.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.pause.mul_f64(0.5 + random_fraction() / 2.0);
        self.pause = (2 * self.pause).clamp(MIN_PAUSE, MAX_PAUSE);
        pause
    }

    /// Starts over, if the last connection has lasted for so long.
    pub(super) fn reset_after(&mut self, lasted: Duration) {
        if lasted >= MAX_PAUSE {
            self.pause = Duration::ZERO;
        }
    }
}

/// From 0 to 1.
fn random_fraction() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_second_with_jitter_and_begin_anew() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), Duration::ZERO);
        for max in [20, 40, 80, 160, 320, 500, 500] {
            let (pause, max) = (backoff.next(), Duration::from_millis(max));
            assert!((max / 2..=max).contains(&pause), "{pause:?} of {max:?}");
        }
        backoff.reset_after(Duration::from_millis(499));
        assert!(backoff.next() >= Duration::from_millis(250));
        backoff.reset_after(Duration::from_millis(500));
        assert_eq!(backoff.next(), Duration::ZERO);
    }
}
