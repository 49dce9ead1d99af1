//! What a process has lately used of a bucket.

/// What was used within the running lease time, and the one before.
#[derive(Default)]
pub(super) struct Use {
    /// When the running one began.
    begin: u64,
    earlier: Used,
    running: Used,
}

/// How many decisions, and how many units.
type Used = [u64; 2];

impl Use {
    pub(super) fn count(&mut self, now: u64, lease_time: u64, used: Used) {
        let passed = now.saturating_sub(self.begin) / lease_time;
        if passed > 0 {
            self.earlier = if passed == 1 { self.running } else { [0; 2] };
            self.running = [0; 2];
            self.begin += passed * lease_time;
        }
        self.running = [0, 1].map(|at| self.running[at] + used[at]);
    }

    /// What was used within the last lease time: of the one before the part that it overlaps.
    pub(super) fn lately(&mut self, now: u64, lease_time: u64) -> Used {
        self.count(now, lease_time, [0; 2]);
        let rest = lease_time - now.saturating_sub(self.begin).min(lease_time);
        let part = |earlier| u128::from(earlier) * u128::from(rest) / u128::from(lease_time);
        [0, 1].map(|at| part(self.earlier[at]) as u64 + self.running[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_long_ago_does_not_count() {
        let mut known = Use::default();
        known.count(50, 100, [2, 8]);
        assert_eq!(known.lately(99, 100), [2, 8]);
        assert_eq!(known.lately(150, 100), [1, 4]);
        known.count(150, 100, [1, 1]);
        assert_eq!(known.lately(199, 100), [1, 1]);
        assert_eq!(known.lately(1_000, 100), [0, 0]);
        // A clock that steps back.
        known.count(500, 100, [1, 3]);
        assert_eq!(known.lately(400, 100), [1, 3]);
    }
}
