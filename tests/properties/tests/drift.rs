//! Nothing is ever rounded away: rates hold over a day, and coarse ticks lose nothing.

use std::time::Duration;

use tollgate::{
    Quota,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, SlidingBuckets, SlidingLog, SlidingWindow,
        TokenBucket,
    },
    clock::ManualClock,
};
use tollgate_properties::{
    formulas,
    replay::wait_of,
    subject::{Limiter, Subject, instant},
};

const SECOND: i128 = 1_000_000;
const DAY: i128 = 86_400 * SECOND;

/// How many units an impatient caller gets in `span` microseconds: it comes again exactly when it is told to.
fn taken_in(subject: &Subject, from: i128, span: i128) -> u64 {
    let clock = ManualClock::at(instant(from));
    let limiter = subject.bucket.limiter(clock.clone());
    let (mut now, mut taken) = (from, 0);
    loop {
        let decision = limiter.check(1);
        match decision.is_admitted() {
            true => taken += 1,
            false => now += wait_of(&decision).max(1),
        }
        if now >= from + span {
            return taken;
        }
        clock.set(instant(now));
    }
}

/// From a midnight of long ago.
const MIDNIGHT: i128 = 19_675 * DAY;

#[test]
fn three_per_second_is_259_200_in_a_day_and_30_000_in_ten_thousand_seconds() {
    let quota = Quota::per_second(3);
    let tenth = Duration::from_millis(100);
    let subjects = [
        (Subject::new("fixed window", FixedWindow::new(quota), []), 0),
        (
            Subject::new(
                "from first",
                FixedWindow::new(quota).from_first_request(),
                [],
            ),
            0,
        ),
        (Subject::new("log", SlidingLog::new(quota), []), 0),
        (
            Subject::new("buckets", SlidingBuckets::new(quota, tenth), []),
            0,
        ),
        // What the bucket holds at first; what refills by the end of the last second comes right after it.
        (Subject::new("token bucket", TokenBucket::new(quota), []), 2),
        (
            Subject::new("burst of 7", TokenBucket::new(quota).burst(7), []),
            6,
        ),
        (
            Subject::new("leaky bucket", LeakyBucket::new(quota).capacity(1), []),
            0,
        ),
        (Subject::new("gcra", Gcra::new(quota).burst(2), []), 1),
        (
            Subject::new("queue", LeakyBucket::new(quota).queue(), []),
            2,
        ),
        (
            Subject::new(
                "tuple",
                (TokenBucket::new(quota), SlidingLog::new(quota)),
                [],
            ),
            0,
        ),
    ];
    for (subject, more) in subjects {
        for (span, units) in [(10_000 * SECOND, 30_000), (DAY, 259_200)] {
            let taken = taken_in(&subject, MIDNIGHT, span);
            assert_eq!(taken, units + more, "{}", subject.name);
        }
    }
}
