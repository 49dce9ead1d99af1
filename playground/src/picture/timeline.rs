//! One limit on a line of time: who was admitted, delayed and refused, and what was left.

use crate::{
    bound::{Bound, Counts, bound_on},
    limit::Limit,
    lines,
    simulate::{Looks, Request, Run},
    span,
    worst::{Worst, worst},
};

use super::{
    Picture,
    sample::{self, LASTS, Shown},
    svg::{Drawing, Path, look},
};

/// Everything is counted in slots of so many microseconds.
pub(super) const SLOT: u64 = 50_000;
const LEFT_EDGE: u64 = 140;
const SLOT_WIDTH: u64 = 69;
const WIDTH: u64 = 7_200;
const UNIT: u64 = 48;

/// What a limit made of the sample.
pub(super) struct Seen {
    pub(super) requests: Vec<Request>,
    pub(super) run: Run,
    pub(super) bound: Bound,
    pub(super) worst: Worst,
}

/// How much happened in a slot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    /// Let through at once.
    pub admitted: u64,
    /// Let through after a delay.
    pub delayed: u64,
    /// Refused.
    pub refused: u64,
}

impl Seen {
    pub(super) fn of(limit: &Limit, requests: Vec<Request>, lasts: u64) -> Self {
        let at = (0..lasts / SLOT).map(|slot| slot * SLOT).collect();
        let run = limit.run(&requests, &Looks { bucket: 0, at });
        let bound = bound_on(limit, &requests);
        let worst = worst(&requests, &run.decided, 0, &bound);
        Self {
            requests,
            run,
            bound,
            worst,
        }
    }

    /// By the instant of arrival.
    pub(super) fn asked(&self, lasts: u64) -> Vec<Slot> {
        self.slots(lasts, |at, _| at)
    }

    /// By the instant of release; refusals where they came.
    pub(super) fn released(&self, lasts: u64) -> Vec<Slot> {
        self.slots(lasts, |at, delay| at + delay)
    }

    fn slots(&self, lasts: u64, place: impl Fn(u64, u64) -> u64) -> Vec<Slot> {
        let mut slots = vec![Slot::default(); (lasts / SLOT) as usize];
        for (request, decision) in self.requests.iter().zip(&self.run.decided) {
            let at = place(request.at, decision.delay_micros);
            let Some(slot) = slots.get_mut((at / SLOT) as usize) else {
                continue;
            };
            match (decision.is_admitted, decision.delay_micros) {
                (true, 0) => slot.admitted += 1,
                (true, _) => slot.delayed += 1,
                (false, _) => slot.refused += 1,
            }
        }
        slots
    }

    /// How many were admitted at once, delayed, and refused.
    pub(super) fn numbers(&self) -> (usize, usize, usize) {
        let decided = &self.run.decided;
        let admitted = decided.iter().filter(|it| it.is_admitted).count();
        let delayed = decided.iter().filter(|it| it.delay_micros > 0).count();
        (admitted - delayed, delayed, decided.len() - admitted)
    }

    /// The most in any one span, beside the printed bound.
    pub(super) fn most_in_words(&self) -> String {
        let most = self
            .bound
            .most
            .map_or("?".to_owned(), |most| most.to_string());
        let span = match self.bound.counts {
            Counts::InFlight => "at once".to_owned(),
            Counts::Releases => format!("released in {}", self.bound.span()),
            _ => format!("in {}", self.bound.span()),
        };
        format!("at most {} {span}; the bound is {most}", self.worst.most)
    }
}

/// The picture of one algorithm, if it has one of its own.
pub(super) fn picture(shown: &Shown) -> Option<Picture> {
    let name = shown.picture?;
    let seen = Seen::of(&shown.limit, sample::requests(), LASTS);
    let line = lines::rust(&shown.limit);
    let (admitted, delayed, refused) = seen.numbers();
    let mut counted = format!("{admitted} admitted");
    if delayed > 0 {
        counted += &format!(" at once, {delayed} delayed");
    }
    counted += &format!(", {refused} refused · {}", seen.most_in_words());

    let mut drawing = Drawing::default();
    drawing.text(look::CODE, (LEFT_EDGE, 220), &line);
    drawing.text(look::MUTED, (LEFT_EDGE, 420), &counted);
    let mut legend = vec![
        (look::ADMITTED, "admitted", 780),
        (look::REFUSED, "refused", 700),
    ];
    let delays = delayed > 0;
    if delays {
        legend.insert(1, (look::DELAYED, "delayed", 720));
    }
    let width: u64 = legend.iter().map(|entry| entry.2).sum();
    drawing.legend((WIDTH - width - 20, 640), &legend);

    let mut base = 1_200;
    lane(&mut drawing, base, "asked", &seen.asked(LASTS));
    if delays {
        base += 750;
        let released: Vec<_> = seen.released(LASTS);
        let of_released = released.iter().map(|slot| Slot {
            refused: 0,
            ..*slot
        });
        lane(
            &mut drawing,
            base,
            "leaves",
            &of_released.collect::<Vec<_>>(),
        );
    }
    worst_span(&mut drawing, base + 60, &seen);
    base += 700;
    let most = seen.run.decided.iter().map(|decision| decision.limit).max();
    let most = most.unwrap_or(1).max(1);
    let heights: Vec<_> = seen.run.left.iter().map(|left| left * 360 / most).collect();
    drawing.text(
        look::MUTED,
        (LEFT_EDGE, base - 390),
        &format!("left, of {most}"),
    );
    drawing.area((LEFT_EDGE, base), SLOT_WIDTH, &heights);
    axis(&mut drawing, base);

    let description = format!(
        "{}: {counted}. The traffic is {}.",
        shown.called,
        sample::IN_WORDS
    );
    let title = format!("What {line} lets through");
    let svg = drawing.finish((WIDTH, base + 260), &title, &description);
    Some(Picture { name, svg })
}

fn lane(drawing: &mut Drawing, base: u64, name: &str, slots: &[Slot]) {
    drawing.text(look::MUTED, (LEFT_EDGE, base - 420), name);
    drawing.line(
        look::GRID,
        (LEFT_EDGE, base),
        slots.len() as u64 * SLOT_WIDTH,
    );
    bars(drawing, (LEFT_EDGE, base), SLOT_WIDTH, UNIT, slots);
}

/// A stack for each slot: what went at once, what was delayed, what was refused.
pub(super) fn bars(
    drawing: &mut Drawing,
    (x, base): (u64, u64),
    slot_width: u64,
    unit: u64,
    slots: &[Slot],
) {
    let mut paths = [Path::default(), Path::default(), Path::default()];
    for (index, slot) in slots.iter().enumerate() {
        let x = x + index as u64 * slot_width + slot_width / 2;
        let mut y = base;
        for (path, number) in paths
            .iter_mut()
            .zip([slot.admitted, slot.delayed, slot.refused])
        {
            path.bar(x, y, number * unit);
            y -= number * unit;
        }
    }
    for (path, look) in paths
        .iter()
        .zip([look::ADMITTED, look::DELAYED, look::REFUSED])
    {
        drawing.path(look, path);
    }
}

fn worst_span(drawing: &mut Drawing, y: u64, seen: &Seen) {
    if seen.bound.span_micros == 0 {
        return;
    }
    let x = |at: u64| LEFT_EDGE + (at / SLOT + 1) * SLOT_WIDTH;
    let span = seen.bound.span_micros;
    let from = x(seen.worst.until.saturating_sub(span));
    let until = x(seen.worst.until);
    drawing.line(look::WORST, (from, y), until - from);
    let label = format!("most in {}: {}", span::told(span), seen.worst.most);
    drawing.text(look::PLAIN, (until + 60, y + 60), &label);
}

fn axis(drawing: &mut Drawing, base: u64) {
    for second in 0..=LASTS / span::SECOND {
        let x = LEFT_EDGE + second * span::SECOND / SLOT * SLOT_WIDTH;
        drawing.rule(look::GRID, (x, base + 60), 60);
        let look = if second * span::SECOND == LASTS {
            look::MUTED_RIGHT
        } else {
            look::MUTED
        };
        drawing.text(look, (x, base + 190), &format!("{second} s"));
    }
}
