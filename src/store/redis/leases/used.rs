//! What a process has lately used of a bucket.

/// What was used within the running lease time, and the one before.
pub(super) struct Use {
    /// When the running one began.
    pub(super) begin: u64,
    earlier: Used,
    running: Used,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) decisions: u64,
    pub(super) units: u64,
}

impl Use {
    pub(super) fn new(now: u64) -> Self {
        Self {
            begin: now,
            earlier: Used::default(),
            running: Used::default(),
        }
    }

    pub(super) fn count(&mut self, now: u64, lease_time: u64, used: Used) {
        let passed = now.saturating_sub(self.begin) / lease_time;
        if passed > 0 {
            let is_next = passed == 1;
            self.earlier = if is_next {
                self.running
            } else {
                Used::default()
            };
            self.running = Used::default();
            self.begin += passed * lease_time;
        }
        self.running.decisions += used.decisions;
        self.running.units += used.units;
    }

    /// What was used within the last lease time: of the one before the part that it overlaps.
    pub(super) fn lately(&mut self, now: u64, lease_time: u64) -> Used {
        self.count(now, lease_time, Used::default());
        let rest = lease_time - now.saturating_sub(self.begin).min(lease_time);
        let part =
            |earlier: u64| (u128::from(earlier) * u128::from(rest) / u128::from(lease_time)) as u64;
        Used {
            decisions: part(self.earlier.decisions) + self.running.decisions,
            units: part(self.earlier.units) + self.running.units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_long_ago_does_not_count() {
        let mut known = Use::new(0);
        let used = |units| Used {
            decisions: 1,
            units,
        };
        known.count(50, 100, used(8));
        assert_eq!(known.lately(99, 100).units, 8);
        assert_eq!(known.lately(150, 100).units, 4);
        known.count(150, 100, used(1));
        assert_eq!(known.lately(199, 100).units, 1);
        let long_after = known.lately(1_000, 100);
        assert_eq!((long_after.decisions, long_after.units), (0, 0));
        // A clock that steps back.
        known.count(500, 100, used(3));
        assert_eq!(known.lately(400, 100).units, 3);
    }
}
