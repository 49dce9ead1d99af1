//! The clock of a log: the time at which its lines were written, even if a few of them are wrong.

/// How many lines in a row must disagree with the clock to set it: one host with a wrong clock does
/// not write as many without a line of another host in between.
const ENOUGH: usize = 64;

/// The latest end of a request, by lines that agree.
///
/// A line whose time is further from the clock than the window does not move it: the line may be
/// wrong. After a night without requests, or a wrong first line, all lines disagree. When
/// [`ENOUGH`] of them have come in a row, the clock is set to their median. Until then the time is
/// not known.
pub(super) struct LogClock {
    window_micros: u64,
    latest_end: Option<u64>,
    /// The ends of the last lines in a row that are dated elsewhere.
    elsewhere: Vec<u64>,
}

/// What a line is beside those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dated {
    /// It agrees with them; those in doubt were wrong.
    AsOthers,
    /// It is dated elsewhere, and in doubt.
    Elsewhere,
    /// The last of enough in a row that are dated elsewhere: none of them was wrong.
    Anew,
}

impl LogClock {
    pub(super) fn new(window_micros: u64) -> Self {
        Self {
            window_micros,
            latest_end: None,
            elsewhere: Vec::with_capacity(ENOUGH),
        }
    }

    /// When the last requests ended; `None` while the lines do not agree.
    pub(super) fn now(&self) -> Option<u64> {
        self.latest_end.filter(|_| self.elsewhere.is_empty())
    }

    /// A line tells of a request that ended then.
    pub(super) fn see(&mut self, end: u64) -> Dated {
        let latest = *self.latest_end.get_or_insert(end);
        if end.abs_diff(latest) <= self.window_micros {
            self.latest_end = Some(latest.max(end));
            self.elsewhere.clear();
            return Dated::AsOthers;
        }
        self.elsewhere.push(end);
        if self.elsewhere.len() < ENOUGH {
            return Dated::Elsewhere;
        }
        self.elsewhere.sort_unstable();
        self.latest_end = Some(self.elsewhere[ENOUGH / 2]);
        self.elsewhere.clear();
        Dated::Anew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIGHT: u64 = 8 * 3_600;

    /// A clock with a window of a minute that has seen these; in seconds.
    fn clock(ends: impl IntoIterator<Item = u64>) -> LogClock {
        let mut clock = LogClock::new(60);
        for end in ends {
            clock.see(end);
        }
        clock
    }

    #[test]
    fn it_is_the_latest_end_and_never_goes_back_for_a_line_within_the_window() {
        assert_eq!(clock([]).now(), None);
        assert_eq!(clock([100, 90, 160, 101]).now(), Some(160));
    }

    #[test]
    fn a_line_that_is_dated_elsewhere_moves_it_nowhere() {
        for elsewhere in [0, 100_000] {
            let mut clock = clock([100]);
            assert_eq!(clock.see(elsewhere), Dated::Elsewhere);
            assert_eq!(clock.now(), None);
            assert_eq!(clock.see(101), Dated::AsOthers);
            assert_eq!(clock.now(), Some(101));
        }
    }

    #[test]
    fn after_a_gap_it_is_what_enough_lines_say() {
        let after = |lines: u64| clock([100].into_iter().chain(NIGHT..NIGHT + lines));
        assert_eq!(after(63).now(), None);
        // The middle of those; then the latest of all.
        assert_eq!(after(64).now(), Some(NIGHT + 32));
        assert_eq!(after(65).now(), Some(NIGHT + 64));
        assert_eq!(after(63).see(NIGHT), Dated::Anew);
    }

    #[test]
    fn a_first_line_that_is_wrong_is_forgotten_and_wild_ones_in_a_gap_do_not_count() {
        for wrong in [0, 1 << 50] {
            let clock = clock([wrong].into_iter().chain((0..65).map(|line| NIGHT + line)));
            assert_eq!(clock.now(), Some(NIGHT + 64));
        }
        let wild = (0..64).map(|line| NIGHT + if line % 3 == 0 { 1 << 50 } else { line });
        let now = clock([0].into_iter().chain(wild)).now().unwrap();
        assert!((NIGHT..NIGHT + 64).contains(&now), "{now}");
    }
}
