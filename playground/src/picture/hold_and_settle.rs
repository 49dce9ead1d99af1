//! Costs that are known afterwards: charged whole at once, or held and settled.

use tollgate::{
    Quota,
    algorithm::{KeyLimit, TokenBucket},
};

use crate::{
    simulate::{Looks, Request, Run, simulate},
    span::{self, SECOND},
};

use super::svg::{Drawing, Path, look};

const LASTS: u64 = 6 * SECOND;
const LEFT_EDGE: u64 = 140;
/// For each slot of a sixteenth of a second.
const SLOT: u64 = 62_500;
const SLOT_WIDTH: u64 = 72;
const WIDTH: u64 = 7_200;
const RUNS: u64 = 700_000;
const HELD: u32 = 300;
const SPENT: u32 = 90;

pub(super) fn picture() -> String {
    let bucket = || TokenBucket::new(Quota::per_minute(1_000));
    let mut drawing = Drawing::default();
    let legend = [
        (look::ADMITTED, "runs", 560),
        (look::REFUSED, "refused", 700),
    ];
    drawing.legend((WIDTH - 1_320, 220), &legend);
    let mut description = String::new();
    let mut base = 220;
    for (line, run) in [
        ("TokenBucket::new(Quota::per_minute(1000))", run(&bucket())),
        (
            "TokenBucket::new(Quota::per_minute(1000)).settled()",
            run(&bucket().settled()),
        ),
    ] {
        drawing.text(look::CODE, (LEFT_EDGE, base), line);
        let admitted = run.decided.iter().filter(|it| it.is_admitted).count();
        let number = format!("{admitted} of {} admitted", run.decided.len());
        drawing.text(look::MUTED, (LEFT_EDGE, base + 190), &number);
        description += &format!("{line}: {number}. ");
        requests_of(&mut drawing, base + 320, &run);
        base += 1_350;
        let heights: Vec<_> = run.left.iter().map(|left| left * 360 / 1_000).collect();
        drawing.text(look::MUTED, (LEFT_EDGE, base - 390), "left, of 1000");
        drawing.area((LEFT_EDGE, base), SLOT_WIDTH, &heights);
        base += 300;
    }
    for second in 0..LASTS / SECOND {
        let x = LEFT_EDGE + second * SECOND / SLOT * SLOT_WIDTH;
        drawing.text(look::MUTED, (x, base - 130), &span::told(second * SECOND));
    }
    let title = format!(
        "Each request costs {HELD} when it comes, runs for {}, and has spent {SPENT} in the end",
        span::told(RUNS)
    );
    drawing.finish((WIDTH, base - 40), &title, description.trim_end())
}

/// One every half second, each of which is over when the next but one comes.
fn requests() -> Vec<Request> {
    let requests = (0..11).map(|index| Request {
        cost: HELD,
        spends: SPENT,
        runs_micros: RUNS,
        ..Request::at(250_000 + index * 500_000)
    });
    requests.collect()
}

fn run<A: KeyLimit>(rule: &A) -> Run {
    let at = (0..LASTS / SLOT).map(|slot| slot * SLOT).collect();
    simulate(rule, &requests(), &Looks { bucket: 0, at })
}

fn requests_of(drawing: &mut Drawing, top: u64, run: &Run) {
    let (mut admitted, mut refused) = (Path::default(), Path::default());
    for (index, (request, decision)) in requests().iter().zip(&run.decided).enumerate() {
        let x = LEFT_EDGE + request.at * SLOT_WIDTH / SLOT;
        let y = top + index as u64 % 3 * 120;
        match decision.is_admitted {
            true => admitted.run(x, y, RUNS * SLOT_WIDTH / SLOT),
            false => refused.cross(x, y),
        }
    }
    drawing.path(look::ADMITTED, &admitted);
    drawing.path(look::REFUSED, &refused);
}
