//! Rounds in which everything that is compared takes its turn, and the ratios that come of them.

use std::fmt;

/// How many rounds each has.
pub fn rounds() -> usize {
    if crate::quick() { 5 } else { 21 }
}

/// One number of each round, of one of those who take turns.
#[derive(Debug, Clone)]
pub struct Series(Vec<f64>);

impl Series {
    /// Of the rounds that count, where there is one number more for the turn that does not.
    pub fn without_first(numbers: &[f64]) -> Self {
        Self(numbers[1..].to_vec())
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// Each number less the one of the same round in the other series.
    pub fn over(&self, other: &Self) -> Self {
        let pairs = self.0.iter().zip(&other.0);
        Self(pairs.map(|(one, other)| one - other).collect())
    }

    /// The ratio of the medians, and the range of the rounds' ratios.
    pub fn ratio_to(&self, other: &Self) -> Ratio {
        let pairs = self.0.iter().zip(&other.0);
        let ratios = || pairs.clone().map(|(one, other)| one / other);
        Ratio {
            of_medians: self.median() / other.median(),
            least: ratios().fold(f64::INFINITY, f64::min),
            most: ratios().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// How many times as much the one is as the other.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// The median of the one by the median of the other.
    pub of_medians: f64,
    /// The least ratio of a round.
    pub least: f64,
    /// The greatest ratio of a round.
    pub most: f64,
}

impl Ratio {
    /// The same without emphasis: of what is no comparison with a peer.
    pub fn plain(&self) -> String {
        format!("{self}").replace('*', "")
    }
}

impl fmt::Display for Ratio {
    /// `0.71 (0.68..0.80)`, in bold where it is more than 1: `scripts/bench` finds those rows by it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of_medians,
            least,
            most,
        } = self;
        let bold = if *of_medians > 1.005 { "**" } else { "" };
        write!(f, "{bold}{of_medians:.2}{bold} ({least:.2}..{most:.2})")
    }
}

/// One who takes turns: it tells the number of its turn, in nanoseconds or whatever is compared.
pub type Turn<'a> = Box<dyn FnMut() -> f64 + 'a>;

/// How long a turn takes that does as much as fits.
const TURN_NANOS: f64 = 2e7;

/// A turn of one who does something as often as it is told, at most so often, and tells the nanoseconds of each.
pub fn turn_of<'a>(most: usize, mut many: impl FnMut(usize) -> f64 + 'a) -> Turn<'a> {
    // The first turn does not count, and is the one that tells how often.
    let mut count = most / 100;
    Box::new(move || {
        let nanos = many(count);
        if count < most {
            count = (TURN_NANOS / nanos).clamp(most as f64 / 100.0, most as f64) as usize;
        }
        nanos
    })
}

/// Lets all take turns, A B C A B C, after one turn of each that does not count.
pub fn take_turns<const N: usize>(mut turns: [Turn<'_>; N]) -> [Series; N] {
    let mut series = [const { Vec::new() }; N];
    for round in 0..=rounds() {
        for (turn, series) in turns.iter_mut().zip(&mut series) {
            let number = turn();
            if round > 0 {
                series.push(number);
            }
        }
    }
    series.map(Series)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
