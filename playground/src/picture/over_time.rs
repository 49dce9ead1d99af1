//! How much was admitted, delayed and refused over time: for traffic of any length, in bins.

use super::{
    svg::{Drawing, look},
    timeline::{Slot, bars},
};

const LEFT_EDGE: u64 = 140;
const WIDTH: u64 = 7_200;
const HEIGHT: u64 = 1_240;
const BASE: u64 = 900;
const HIGHEST: u64 = 600;

/// Fewer bins than these do not take the whole width.
const MIN_BINS: usize = 20;

/// What is drawn.
#[derive(Debug, Clone, Copy)]
pub struct OverTime<'a> {
    /// The title of the picture.
    pub title: &'a str,
    /// The picture in words.
    pub told: &'a str,
    /// What happened in each bin.
    pub bins: &'a [Slot],
    /// How what was refused is called.
    pub refused: &'a str,
    /// When the first bin begins, and when the last one ends.
    pub ends: (&'a str, &'a str),
}

impl OverTime<'_> {
    /// The picture, as SVG. All texts are escaped.
    pub fn svg(&self) -> String {
        let total = |bin: &Slot| bin.admitted + bin.delayed + bin.refused;
        let most = self.bins.iter().map(total).max().unwrap_or(0).max(1);
        let width = (WIDTH - 2 * LEFT_EDGE) / self.bins.len().max(MIN_BINS) as u64;
        let height = |number: u64| {
            let height = u128::from(number) * u128::from(HIGHEST) / u128::from(most);
            // What is there is seen.
            (height as u64).max(u64::from(number > 0) * 10)
        };
        let scaled = self.bins.iter().map(|bin| Slot {
            admitted: height(bin.admitted),
            delayed: height(bin.delayed),
            refused: height(bin.refused),
        });
        let scaled: Vec<_> = scaled.collect();
        let mut drawing = Drawing::default();
        let at_most = format!("at most {most} in one");
        drawing.text(look::MUTED, (LEFT_EDGE, 220), &at_most);
        let mut legend = vec![(look::ADMITTED, "admitted", 780)];
        if self.bins.iter().any(|bin| bin.delayed > 0) {
            legend.push((look::DELAYED, "delayed", 720));
        }
        legend.push((look::REFUSED, self.refused, 1_200));
        drawing.legend((WIDTH - 2_800, 220), &legend);
        let all = self.bins.len() as u64 * width;
        drawing.line(look::GRID, (LEFT_EDGE, BASE), all);
        bars(&mut drawing, (LEFT_EDGE, BASE), width, 1, &scaled);
        drawing.text(look::MUTED, (LEFT_EDGE, BASE + 200), self.ends.0);
        drawing.text(
            look::MUTED_RIGHT,
            (WIDTH - LEFT_EDGE, BASE + 200),
            self.ends.1,
        );
        drawing.finish((WIDTH, HEIGHT), self.title, self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(bins: &[Slot]) -> String {
        let picture = OverTime {
            title: "<b>",
            told: "a & b",
            bins,
            refused: "would be refused",
            ends: ("13:00", "14:00"),
        };
        picture.svg()
    }

    #[test]
    fn any_number_of_bins_and_of_requests_is_drawn_in_the_same_size() {
        let full = Slot {
            admitted: u64::MAX / 4,
            delayed: 1,
            refused: u64::MAX / 4,
        };
        for bins in [0, 1, 60] {
            let svg = svg(&vec![full; bins]);
            assert!(svg.contains("viewBox=\"0 0 720 124\""), "{svg}");
            assert!(svg.len() < 20_000);
            assert_eq!(svg.contains("delayed"), bins > 0);
        }
    }

    #[test]
    fn one_request_among_many_is_seen_and_texts_are_escaped() {
        let bin = Slot {
            admitted: 1_000_000,
            delayed: 0,
            refused: 1,
        };
        let svg = svg(&[bin]);
        assert!(svg.contains("class=\"r\" d=\"M"), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && svg.contains("a &amp; b"));
        assert!(!svg.contains("<b>"));
    }
}
