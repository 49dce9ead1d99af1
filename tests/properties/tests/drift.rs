//! Nothing is ever rounded away: rates hold over a day, and coarse ticks lose nothing.

use std::time::Duration;

use tollgate::{
    Quota,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, Scripted, SlidingBuckets, SlidingLog, SlidingWindow,
        TokenBucket,
    },
};
use tollgate_properties::{
    formulas,
    replay::wait_of,
    subject::{Subject, instant},
};

const SECOND: i128 = 1_000_000;
const DAY: i128 = 86_400 * SECOND;

/// How many units a caller gets in `span` microseconds that comes again exactly when it is told to.
fn taken_in(subject: &Subject, from: i128, span: i128) -> u64 {
    let (clock, limiter) = subject.limiter_at(from);
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
    fn of<A: Scripted>(name: &'static str, rule: A, more: u64) -> (Subject, u64) {
        (Subject::new(name, rule, []), more)
    }
    let (bucket, log) = (TokenBucket::new(quota), SlidingLog::new(quota));
    let (window, leaky) = (FixedWindow::new(quota), LeakyBucket::new(quota));
    let subjects = [
        of("fixed window", window.clone(), 0),
        of("from first", window.from_first_request(), 0),
        of("log", log.clone(), 0),
        of("buckets", SlidingBuckets::new(quota, tenth), 0),
        // The first burst is extra; what refills by the end of the last second comes right after
        // it.
        of("token bucket", bucket.clone(), 2),
        of("burst of 7", bucket.clone().burst(7), 6),
        of("leaky bucket", leaky.clone().capacity(1), 0),
        of("gcra", Gcra::new(quota).burst(2), 1),
        of("queue", leaky.queue(), 2),
        of("tuple", (bucket, log), 0),
    ];
    for (subject, more) in subjects {
        for (span, units) in [(10_000 * SECOND, 30_000), (DAY, 259_200)] {
            let taken = taken_in(&subject, MIDNIGHT, span);
            assert_eq!(taken, units + more, "{}", subject.name);
        }
    }
}

/// The estimate rounds against a caller who always comes as early as it may: it gets the quota
/// once, and then less in each period: one less of a few units, one in two periods of a quota of 1.
#[test]
fn a_sliding_window_gives_an_impatient_caller_a_little_less_than_its_quota() {
    for (n, taken) in [(1, 500), (2, 1_001), (3, 2_001), (10, 9_001), (100, 99_001)] {
        let rule = SlidingWindow::new(Quota::per_second(n));
        let window = Subject::new("window", rule, []);
        assert_eq!(taken_in(&window, MIDNIGHT, 1_000 * SECOND), taken, "{n}");
    }
}

/// A quota per day of a large prime number is counted in ticks of 10 µs.
#[test]
fn a_quota_in_coarse_ticks_loses_nothing_all_day() {
    let quota = Quota::per_day(999_983);
    let bucket = Subject::new("token bucket", TokenBucket::new(quota).burst(5), []);
    assert_eq!(taken_in(&bucket, MIDNIGHT, DAY), 999_983 + 4);
}

/// The most in a span of one period: a whole burst in the last microsecond of a tick, and what
/// refills in the ticks that the span touches. That is more than in a period if they do not divide
/// it.
#[test]
fn in_coarse_ticks_the_bound_is_the_burst_and_what_refills_in_each_tick_of_the_span() {
    for (n, period, tick, burst, more) in [
        (999_983, DAY, 10, 999_983, 0),
        (10_000_019, DAY, 100, 20_000_038, 0),
        (9_100_000_007, 1_000_018, 10, 9_100_000_007, 18_199),
    ] {
        let quota = Quota::new(n, Duration::from_micros(u64::try_from(period).unwrap()));
        let rule = Gcra::new(quota).burst(burst);
        let mut bucket = Subject::new("gcra", rule, []).bucket.fork();
        let mut most = 0;
        for now in [0, period / 2, period - 1].map(|after| tick - 1 + after) {
            loop {
                let left = bucket.peek(0, now).remaining();
                if left == 0 {
                    break;
                }
                let cost = u32::try_from(left).unwrap_or(u32::MAX);
                assert!(bucket.check(cost, now).is_admitted());
                most += i128::from(cost);
            }
        }
        let (burst, n) = (i128::from(burst), i128::from(n));
        assert_eq!(most, burst + n + more);
        assert_eq!(most, formulas::debt_bucket(burst, n, period, tick));
    }
}
