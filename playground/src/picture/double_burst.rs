//! A burst on either side of a window's edge.

use crate::{
    limit::Limit,
    simulate::Request,
    span::{self, SECOND},
};

use super::{
    svg::{Drawing, look},
    timeline::{SLOT, Seen, bars},
};

const LASTS: u64 = 3 * SECOND;
const STRIP: u64 = 1_700;
const SLOT_WIDTH: u64 = 70;
const WORST: u64 = 7_280;
const WIDTH: u64 = 7_420;
const ROW: u64 = 760;
const UNIT: u64 = 44;

pub(super) fn picture() -> String {
    let mut drawing = Drawing::default();
    let legend = [
        (look::ADMITTED, "admitted", 800),
        (look::REFUSED, "refused", 700),
    ];
    drawing.legend((STRIP, 220), &legend);
    drawing.text(look::MUTED_RIGHT, (WORST, 220), "most in 1 s");
    let mut description = String::new();
    let mut base = 220;
    for (called, json) in [
        (
            "fixed window",
            r#"{"algorithm": "fixed-window", "quota": "10/s"}"#,
        ),
        (
            "sliding window",
            r#"{"algorithm": "sliding-window", "quota": "10/s"}"#,
        ),
        (
            "token bucket",
            r#"{"algorithm": "token-bucket", "quota": "10/s"}"#,
        ),
        (
            "sliding log",
            r#"{"algorithm": "sliding-log", "quota": "10/s"}"#,
        ),
    ] {
        base += ROW;
        let seen = Seen::of(&Limit::of(json), requests(), LASTS);
        let slots = seen.asked(LASTS);
        drawing.text(look::BOLD, (140, base), called);
        drawing.line(look::GRID, (STRIP, base), slots.len() as u64 * SLOT_WIDTH);
        bars(&mut drawing, (STRIP, base), SLOT_WIDTH, UNIT, &slots);
        let worst = format!(
            "{} of at most {}",
            seen.worst.most,
            seen.bound.most.unwrap_or(0)
        );
        drawing.text(look::RIGHT, (WORST, base), &worst);
        description += &format!("{called}: {worst}. ");
    }
    for second in 0..=LASTS / SECOND {
        let x = STRIP + second * SECOND / SLOT * SLOT_WIDTH;
        drawing.rule(look::EDGE, (x, base + 60), base - 260);
        drawing.text(look::MUTED, (x, base + 200), &span::told(second * SECOND));
    }
    let title = "Ten a second, asked for 10 at 0.95 s and 10 at 1.05 s: a window's edge is at 1 s";
    drawing.finish((WIDTH, base + 280), title, description.trim_end())
}

fn requests() -> Vec<Request> {
    let mut instants = vec![950_000; 10];
    instants.extend([1_050_000; 10]);
    instants.into_iter().map(Request::at).collect()
}
