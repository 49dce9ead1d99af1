//! Turns of everything that is compared, in groups, and the ratios that come of them.
//!
//! Turns are short and many, and follow each other: A B C, A B C. A group is a few of each, and its
//! number the median of them, so that a few that were disturbed do not count. A ratio is that of
//! two numbers of one group.
//!
//! Where it does not take long to build what is compared, groups come from several passes over all
//! rows of a table, each with everything built anew: what a seed or a place in memory does, and
//! what the machine does for a while, is seen in the spread.

use std::fmt;

/// How long a turn takes that does as much as fits, where nothing speaks for another length.
pub const SHORT: f64 = 1e6;

/// How many turns there are.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    groups: usize,
    in_a_group: usize,
}

impl Turns {
    /// This many groups, or a few in a quick run, of this many turns of each.
    pub fn new(groups: usize, in_a_group: usize) -> Self {
        let most = if crate::quick() { 3 } else { groups };
        Self {
            groups: groups.min(most),
            in_a_group,
        }
    }

    /// Lets all take turns, after one turn of each that does not count.
    pub fn take<const N: usize>(self, mut turns: [Turn<'_>; N]) -> [Series; N] {
        let mut numbers = [const { Vec::new() }; N];
        for _ in 0..=self.groups * self.in_a_group {
            for (turn, numbers) in turns.iter_mut().zip(&mut numbers) {
                numbers.push(turn());
            }
        }
        numbers.map(|numbers| self.series(&numbers))
    }

    /// The groups of the numbers of all turns, of which the first does not count.
    pub fn series(self, numbers: &[f64]) -> Series {
        let groups = numbers[1..].chunks(self.in_a_group);
        Series(groups.map(|group| quantile(group, 0.5)).collect())
    }
}

/// One who takes turns: it tells the number of its turn, in nanoseconds or whatever is compared.
pub type Turn<'a> = Box<dyn FnMut() -> f64 + 'a>;

/// A turn of about so many nanoseconds, of one who does something as often as it is told, at most
/// so often, and tells the nanoseconds of each.
pub fn turn_of<'a>(length: f64, most: usize, mut many: impl FnMut(usize) -> f64 + 'a) -> Turn<'a> {
    let mut count = None;
    Box::new(move || {
        // The first turn does not count, and is the one that finds out how often.
        let count = *count.get_or_insert_with(|| {
            let tries = (0..5).map(|_| many(most.div_ceil(200)));
            let nanos = tries.fold(f64::INFINITY, f64::min);
            (length / nanos).clamp(1.0, most as f64) as usize
        });
        many(count)
    })
}

/// The rows of a table, and what was measured of each.
#[derive(Debug)]
pub struct Rows<T, const N: usize> {
    rows: Vec<(T, [Series; N])>,
    pass: usize,
    next: usize,
}

impl<T, const N: usize> Rows<T, N> {
    /// Measures all rows in several passes: each adds the same rows in the same order.
    pub fn in_passes(mut add_all: impl FnMut(&mut Self)) -> Vec<(T, [Series; N])> {
        let mut rows = Self {
            rows: Vec::new(),
            pass: 0,
            next: 0,
        };
        for pass in 0..if crate::quick() { 2 } else { 5 } {
            (rows.pass, rows.next) = (pass, 0);
            add_all(&mut rows);
        }
        rows.rows
    }

    /// A row that is measured in each pass.
    pub fn add(&mut self, row: T, measure: impl FnOnce() -> [Series; N]) {
        let series = measure();
        match self.rows.get_mut(self.next) {
            Some((_, known)) => {
                for (known, more) in known.iter_mut().zip(series) {
                    known.0.extend(more.0);
                }
            }
            None => self.rows.push((row, series)),
        }
        self.next += 1;
    }

    /// A row that takes long to build, and is measured in the first pass only.
    pub fn add_once(&mut self, row: T, measure: impl FnOnce() -> [Series; N]) {
        match self.pass {
            0 => self.add(row, measure),
            _ => self.next += 1,
        }
    }
}

/// One number of each group, of one of those who take turns.
#[derive(Debug, Clone)]
pub struct Series(Vec<f64>);

impl Series {
    /// The middle one.
    pub fn median(&self) -> f64 {
        quantile(&self.0, 0.5)
    }

    /// Each number less the one of the same group in the other series.
    pub fn over(&self, other: &Self) -> Self {
        let pairs = self.0.iter().zip(&other.0);
        Self(pairs.map(|(one, other)| one - other).collect())
    }

    /// The ratios of the groups.
    pub fn ratio_to(&self, other: &Self) -> Ratio {
        let pairs = self.0.iter().zip(&other.0);
        let ratios: Vec<_> = pairs.map(|(one, other)| one / other).collect();
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(|part| quantile(&ratios, part));
        Ratio {
            lower,
            median,
            upper,
        }
    }
}

/// How many times as much the one is as the other.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// A quarter of the groups has less.
    pub lower: f64,
    /// The middle one of the groups' ratios.
    pub median: f64,
    /// A quarter of the groups has more.
    pub upper: f64,
}

impl Ratio {
    /// The same without emphasis: of what is no comparison with a peer.
    pub fn plain(&self) -> String {
        format!("{self}").replace('*', "")
    }
}

impl fmt::Display for Ratio {
    /// `0.71 (0.68..0.80)`, in bold where it is more than 1: `scripts/bench` finds those rows by
    /// it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lower,
            median,
            upper,
        } = self;
        write!(f, "{} ({lower:.2}..{upper:.2})", multiple(*median))
    }
}

/// `0.71`, in bold where it is more than 1: of what has no spread.
pub fn multiple(multiple: f64) -> String {
    let bold = if multiple > 1.005 { "**" } else { "" };
    format!("{bold}{multiple:.2}{bold}")
}

/// The number below which such a part of all is; on the line between the two nearest.
fn quantile(numbers: &[f64], part: f64) -> f64 {
    let mut numbers = numbers.to_vec();
    numbers.sort_by(f64::total_cmp);
    let place = (numbers.len() - 1) as f64 * part;
    let (below, above) = (
        numbers[place.floor() as usize],
        numbers[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::{Series, Turns};

    #[test]
    fn a_ratio_is_the_median_of_the_groups_and_their_quartiles() {
        let one = Series(vec![4.0, 1.0, 100.0, 2.0, 3.0]);
        let other = Series(vec![2.0; 5]);
        assert_eq!(one.ratio_to(&other).to_string(), "**1.50** (1.00..2.00)");
        assert_eq!(other.ratio_to(&other).to_string(), "1.00 (1.00..1.00)");
    }

    #[test]
    fn a_turn_that_was_disturbed_does_not_count() {
        let turns = Turns {
            groups: 2,
            in_a_group: 3,
        };
        let series = turns.series(&[99.0, 1.0, 2.0, 99.0, 99.0, 4.0, 3.0]);
        assert_eq!(series.0, [2.0, 4.0]);
        assert_eq!(series.median(), 3.0);
    }
}
