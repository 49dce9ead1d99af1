//! Waits that are announced: whether who waits so long is admitted, and whether less would have
//! done.

use std::time::Duration;

use skp_ratelimit::{
    FixedWindow as SkpFixed, LeakyBucket as SkpLeaky, SlidingLog as SkpLog,
    SlidingWindow as SkpSliding, TokenBucket as SkpBucket,
};
use tollgate::{
    Quota,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, SlidingBuckets, SlidingLog, SlidingWindow,
    },
};
use tollgate_peers::{
    limit::Limit,
    peers::{SkpRatelimit, ThrottleKitWindow, Trypema},
};

use crate::{
    limiters::{BUCKETS, one_unit_only, tollgate},
    subject::{Bucket, RealTime, Subject},
    verdict::{By, history, row},
};

/// One back each 20 ms, and 5 at once.
const FIVE: Bucket = Bucket {
    units: 50,
    period: Duration::from_secs(1),
    burst: 5,
};
const WINDOW: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn all() {
    let text = "A burst of 5, one back each 20 ms. Requests come at all distances up to 16 ms; one that is refused is \
        made again at the very instant that was announced: how many of these are admitted. Limiters that \
        announce no wait are left out.";
    history("Asked again when told to", text);
    buckets().for_each(|limiter| limiter.at_the_instant(1));
    let text = "The same, but made again just before that instant, by the least time that the limiter tells apart, and \
        by 2 ms where that is a millisecond of the real clock: one that is admitted was told to wait for longer than \
        it had to.";
    history("Asked again just before", text);
    buckets().for_each(|limiter| limiter.just_before(1));

    let several = || buckets().chain(tollgates()).chain([trypema()]);
    let text = "The same with requests of 1 to 5 units, of limiters that know them: the bucket above, or 5 units in \
        100 ms (trypema: 10 in a second).";
    history("Several units, asked again when told to", text);
    several().for_each(|limiter| limiter.at_the_instant(5));
    let text = "The same requests, just before that instant.";
    history("Several units, asked again just before", text);
    several().for_each(|limiter| limiter.just_before(5));

    let others = || tollgates().chain(windows()).chain([trypema()]);
    let text =
        "5 in 100 ms, or one each 20 ms (trypema: 10 in a second), and requests of one unit.";
    history("Other rules, asked again when told to", text);
    others().for_each(|limiter| limiter.at_the_instant(1));
    let text = "The same requests, just before that instant.";
    history("Other rules, asked again just before", text);
    others().for_each(|limiter| limiter.just_before(1));
}

fn buckets() -> impl Iterator<Item = Announcing> {
    let all = BUCKETS.into_iter();
    all.map(|(name, make)| announcing(name, move || make(FIVE)))
}

/// tollgate's other algorithms.
fn tollgates() -> impl Iterator<Item = Announcing> {
    let quota = Quota::new(5, WINDOW);
    let spaced = Quota::one_every(FIVE.interval());
    let first = "tollgate `FixedWindow`, from the first request";
    let buckets = move || SlidingBuckets::new(quota, WINDOW / 10);
    [
        announcing("tollgate `Gcra`", move || {
            tollgate(Gcra::new(spaced).burst(5))
        }),
        announcing("tollgate `LeakyBucket`", move || {
            tollgate(LeakyBucket::new(quota))
        }),
        announcing("tollgate `MinInterval`", || {
            tollgate(MinInterval::new(FIVE.interval()))
        }),
        announcing("tollgate `FixedWindow`", move || {
            tollgate(FixedWindow::new(quota))
        }),
        announcing(first, move || {
            tollgate(FixedWindow::new(quota).from_first_request())
        }),
        announcing("tollgate `SlidingWindow`", move || {
            tollgate(SlidingWindow::new(quota))
        }),
        announcing("tollgate `SlidingLog`", move || {
            tollgate(SlidingLog::new(quota))
        }),
        announcing("tollgate `SlidingBuckets`", move || tollgate(buckets())),
        announcing("tollgate `SlidingBuckets`, strict", move || {
            tollgate(buckets().strict())
        }),
    ]
    .into_iter()
}

fn trypema() -> Announcing {
    announcing("trypema", || {
        let limiter = Trypema::per_window(10, SECOND);
        RealTime::boxed(move |cost| Some(limiter.ask_cost("key", cost.into())))
    })
}

/// Those of other crates.
fn windows() -> impl Iterator<Item = Announcing> {
    let log = Limit {
        interval: WINDOW / 5,
        burst: 5,
    };
    let five = || skp_ratelimit::Quota::new(5, WINDOW).with_burst(5);
    [
        announcing("throttle-kit `SlidingWindowBackend`", move || {
            one_unit_only(ThrottleKitWindow::new(log))
        }),
        announcing("skp-ratelimit `TokenBucket`", move || {
            one_unit_only(SkpRatelimit::by(SkpBucket::new(), five()))
        }),
        announcing("skp-ratelimit `LeakyBucket`", move || {
            one_unit_only(SkpRatelimit::by(SkpLeaky::new(), five()))
        }),
        announcing("skp-ratelimit `FixedWindow`", move || {
            one_unit_only(SkpRatelimit::by(SkpFixed::new(), five()))
        }),
        announcing("skp-ratelimit `SlidingWindow`", move || {
            one_unit_only(SkpRatelimit::by(SkpSliding::new(), five()))
        }),
        announcing("skp-ratelimit `SlidingLog`", move || {
            one_unit_only(SkpRatelimit::by(SkpLog::new(), five()))
        }),
    ]
    .into_iter()
}

/// A limiter by its name.
struct Announcing {
    name: &'static str,
    make: Box<dyn Fn() -> Box<dyn Subject>>,
}

fn announcing(name: &'static str, make: impl Fn() -> Box<dyn Subject> + 'static) -> Announcing {
    let make = Box::new(make);
    Announcing { name, make }
}

impl Announcing {
    fn at_the_instant(&self, most_units: u32) {
        let Some((refused, admitted)) = self.play(most_units, |_| Duration::ZERO) else {
            return;
        };
        let by = match self.name {
            "trypema" => By::Words(BEST_EFFORT),
            _ => By::Promise,
        };
        row(self.name, refused..=refused, admitted, by);
    }

    fn just_before(&self, most_units: u32) {
        let name = self.name;
        let least_time = move |is_told: bool| match is_told {
            // It keeps whole microseconds.
            true if name.starts_with("tollgate") => Duration::from_micros(1),
            true => Duration::from_nanos(1),
            false => Duration::from_millis(2),
        };
        let Some((_, admitted)) = self.play(most_units, least_time) else {
            return;
        };
        let by = match name {
            "trypema" => By::Words(BEST_EFFORT),
            "throttle-kit" | "throttle-kit `SlidingWindowBackend`" => {
                By::Nothing("longer than it had to be")
            }
            _ if name.starts_with("skp") => By::Nothing("longer than it had to be"),
            _ => By::Promise,
        };
        row(name, 0..=0, admitted, by);
    }

    /// How many were refused with a wait, and how many of those were admitted when it was over but
    /// for so much.
    fn play(&self, most_units: u32, early: impl Fn(bool) -> Duration) -> Option<(u64, u64)> {
        let mut subject = (self.make)();
        let subject = &mut *subject;
        subject.take(most_units)?;
        let is_told = subject.step_back(Duration::ZERO);
        let early = early(is_told);
        let rounds = match self.name {
            // Its windows are whole seconds.
            "trypema" => 8,
            _ if is_told => 1_000,
            _ => 25,
        };
        let mut numbers = numbers();
        let (mut refused, mut admitted) = (0, 0);
        for _ in 0..100 * rounds {
            let number = numbers.next()?;
            subject.wait(Duration::from_nanos(number % 16_000_000));
            let cost = 1 + (number >> 32) as u32 % most_units;
            let before = subject.elapsed();
            let Err(Some(wait)) = subject.ask(cost)? else {
                continue;
            };
            if wait <= early {
                continue;
            }
            // The limiter read its clock somewhere between the two.
            let read = if early.is_zero() {
                subject.elapsed()
            } else {
                before
            };
            until(subject, read + wait - early);
            let is_admitted = subject.ask(cost)?.is_ok();
            // Who overslept was not early.
            if early.is_zero() || is_told || subject.elapsed() < read + wait - early / 2 {
                refused += 1;
                admitted += u64::from(is_admitted);
            }
            if refused == rounds {
                break;
            }
        }
        (refused > 0).then_some((refused, admitted))
    }
}

const BEST_EFFORT: &str = "Metadata is best-effort under bucket coalescing and concurrency";

fn until(subject: &mut dyn Subject, due: Duration) {
    let now = subject.elapsed();
    subject.wait(due.saturating_sub(now));
}

/// The same random numbers each time.
fn numbers() -> impl Iterator<Item = u64> {
    let next = |state: &u64| {
        state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1)
    };
    std::iter::successors(Some(7), move |state| Some(next(state))).map(|state: u64| state >> 3)
}
