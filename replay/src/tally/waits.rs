//! How long many waits were, as quantiles.

use hdrhistogram::Histogram;

/// Waits in microseconds. A quantile is at most a thousandth too long, and never too short.
#[derive(Debug)]
pub struct Waits {
    waits: Histogram<u64>,
    longest: u64,
}

/// Significant digits that are kept.
const DIGITS: u8 = 3;

impl Default for Waits {
    fn default() -> Self {
        Self {
            waits: Histogram::new(DIGITS).expect("up to 5 digits are allowed"),
            longest: 0,
        }
    }
}

impl Waits {
    /// Counts one.
    pub fn add(&mut self, micros: u64) {
        // It grows to hold any value.
        let recorded = self.waits.record(micros);
        debug_assert!(recorded.is_ok(), "{recorded:?}");
        self.longest = self.longest.max(micros);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.waits.len()
    }

    /// The wait that this percentage of all waits does not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.waits.value_at_percentile(percent).min(self.longest)
    }

    /// The longest.
    pub fn longest(&self) -> u64 {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_thousandth_too_long_at_most_and_never_too_short() {
        let mut waits = Waits::default();
        for wait in 1..=100_000_u64 {
            waits.add(wait * 777);
        }
        waits.add((1 << 53) - 1);
        for percent in [1, 50, 90, 99] {
            let exact = percent * 1_000 * 777;
            let found = waits.percentile(percent as f64);
            assert!(
                (exact..=exact + exact / 1_000 + 777).contains(&found),
                "{percent}: {found}"
            );
        }
        assert_eq!(waits.count(), 100_001);
        assert_eq!(waits.longest(), (1 << 53) - 1);
    }
}
