//! All algorithms under the same traffic, one row each.

use crate::{bound::Counts, span::SECOND};

use super::{
    sample::{self, LASTS},
    svg::{Drawing, look},
    timeline::{SLOT, Seen, bars},
};

const NAMES: u64 = 140;
const STRIP: u64 = 1_900;
const SLOT_WIDTH: u64 = 40;
const WORST: u64 = 6_560;
const BOUND: u64 = 7_280;
const WIDTH: u64 = 7_420;
const ROW: u64 = 330;
const UNIT: u64 = 24;

pub(super) fn picture() -> String {
    let mut drawing = Drawing::default();
    let legend = [
        (look::ADMITTED, "admitted at once", 1_330),
        (look::DELAYED, "when its turn came", 1_500),
        (look::REFUSED, "refused", 700),
    ];
    drawing.legend((STRIP, 220), &legend);
    drawing.text(look::MUTED_RIGHT, (WORST, 220), "most in 1 s");
    drawing.text(look::MUTED_RIGHT, (BOUND, 220), "bound");
    let mut description = format!("Ten a second, and the traffic is {}. ", sample::IN_WORDS);
    let mut base = 400;
    for shown in sample::limits() {
        base += ROW;
        let seen = Seen::of(&shown.limit, sample::requests(), LASTS);
        let slots = seen.released(LASTS);
        drawing.text(look::PLAIN, (NAMES, base), shown.called);
        drawing.line(look::GRID, (STRIP, base), slots.len() as u64 * SLOT_WIDTH);
        bars(&mut drawing, (STRIP, base), SLOT_WIDTH, UNIT, &slots);
        // A span of its own is no second.
        let unit = match seen.bound.counts {
            Counts::InFlight => " at once".to_owned(),
            _ if seen.bound.span_micros == SECOND => String::new(),
            _ => format!(" in {}", seen.bound.span()),
        };
        let most = seen.bound.most.unwrap_or(0);
        drawing.text(
            look::RIGHT,
            (WORST, base),
            &format!("{}{unit}", seen.worst.most),
        );
        drawing.text(look::RIGHT, (BOUND, base), &most.to_string());
        let (admitted, delayed, refused) = seen.numbers();
        description += &format!(
            "{}: {admitted} admitted at once, {delayed} delayed, {refused} refused, {}. ",
            shown.called,
            seen.most_in_words()
        );
    }
    for second in 0..=LASTS / SECOND {
        let x = STRIP + second * SECOND / SLOT * SLOT_WIDTH;
        drawing.text(look::MUTED, (x, base + 200), &format!("{second} s"));
    }
    let title = "What each algorithm lets through of the same traffic";
    drawing.finish((WIDTH, base + 280), title, description.trim_end())
}
