//! Counts over time: a fixed number of bins, whose width grows with the time that a log spans.

use serde::Serialize;

/// The most bins.
const MAX_BINS: usize = 60;

const SECOND: u64 = 1_000_000;

/// Widths of bins; each is a multiple of the one before. After the last they double.
const WIDTHS: [u64; 13] = [
    SECOND,
    2 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    2 * 60 * SECOND,
    10 * 60 * SECOND,
    30 * 60 * SECOND,
    3_600 * SECOND,
    2 * 3_600 * SECOND,
    6 * 3_600 * SECOND,
    12 * 3_600 * SECOND,
    24 * 3_600 * SECOND,
];

/// The counts of a bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Requests.
    pub requests: u64,
    /// How many of them were delayed.
    pub delayed: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many were refused otherwise: rejected because they have no key, or, in the counts of one
    /// limit, refused by another one.
    pub refused_otherwise: u64,
    /// How many a limit in shadow would have refused.
    pub would_be_refused: u64,
}

/// A line of time, cut into bins.
#[derive(Debug, Clone)]
pub struct OverTime {
    start_micros: u64,
    width_micros: u64,
    bins: Vec<Bin>,
}

impl Default for OverTime {
    fn default() -> Self {
        Self {
            start_micros: 0,
            width_micros: WIDTHS[0],
            bins: Vec::new(),
        }
    }
}

impl OverTime {
    /// The bin of an instant, which must not be earlier than in the last call.
    pub fn at(&mut self, micros: u64) -> &mut Bin {
        if self.bins.is_empty() {
            self.start_micros = micros - micros % self.width_micros;
        }
        let mut place = self.place(micros);
        while place >= MAX_BINS {
            self.widen();
            place = self.place(micros);
        }
        if place >= self.bins.len() {
            self.bins.resize(place + 1, Bin::default());
        }
        &mut self.bins[place]
    }

    fn place(&self, micros: u64) -> usize {
        let bins = micros.saturating_sub(self.start_micros) / self.width_micros;
        usize::try_from(bins).unwrap_or(usize::MAX)
    }

    fn widen(&mut self) {
        let wider = WIDTHS.into_iter().find(|width| *width > self.width_micros);
        let wider = wider.unwrap_or(self.width_micros.saturating_mul(2));
        let start = self.start_micros - self.start_micros % wider;
        let mut bins: Vec<Bin> = Vec::new();
        for (place, bin) in self.bins.iter().enumerate() {
            let at = self.start_micros + place as u64 * self.width_micros;
            let place = ((at - start) / wider) as usize;
            if place >= bins.len() {
                bins.resize(place + 1, Bin::default());
            }
            bins[place].add(bin);
        }
        (self.start_micros, self.width_micros, self.bins) = (start, wider, bins);
    }

    /// When the first bin begins.
    pub fn start_micros(&self) -> u64 {
        self.start_micros
    }

    /// How long each bin lasts.
    pub fn width_micros(&self) -> u64 {
        self.width_micros
    }

    /// All bins, up to the last in which something happened.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.delayed += other.delayed;
        self.refused += other.refused;
        self.refused_otherwise += other.refused_otherwise;
        self.would_be_refused += other.would_be_refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_is_a_multiple_of_the_one_before() {
        for widths in WIDTHS.windows(2) {
            assert!(widths[1] > widths[0] && widths[1].is_multiple_of(widths[0]));
        }
    }

    #[test]
    fn bins_grow_wider_and_lose_nothing() {
        let mut line = OverTime::default();
        let from = 1_000_000_000 * SECOND + 7;
        for second in 0..3 * 86_400 {
            line.at(from + second * SECOND).requests += 1;
            assert!(line.bins().len() <= MAX_BINS);
        }
        // Three days in sixty bins: of two hours.
        assert_eq!(line.width_micros(), 2 * 3_600 * SECOND);
        assert_eq!(line.start_micros() % line.width_micros(), 0);
        let total: u64 = line.bins().iter().map(|bin| bin.requests).sum();
        assert_eq!(total, 3 * 86_400);
        assert_eq!(line.bins()[1].requests, 7_200);
    }

    #[test]
    fn a_leap_of_ages_takes_no_more_bins() {
        let mut line = OverTime::default();
        line.at(0).refused = 1;
        line.at((1 << 53) - 1).refused = 2;
        assert!(line.bins().len() <= MAX_BINS);
        assert_eq!(line.bins()[0].refused, 1);
        assert_eq!(line.bins().last().unwrap().refused, 2);
    }
}
