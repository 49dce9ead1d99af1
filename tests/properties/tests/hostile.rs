//! Hostile numbers: every algorithm at the ends of what there is, and with clocks that misbehave.

use std::time::Duration;

use tollgate::{
    ConfigError, Quota,
    algorithm::{
        FixedWindow, Gcra, LeakyBucket, MinInterval, Scripted, SlidingBuckets, SlidingLog,
        SlidingWindow, TokenBucket,
    },
};
use tollgate_properties::{
    call::Call,
    conformance::every_algorithm,
    history::LAST,
    numbers::Numbers,
    subject::{Limiter, Subject, instant},
};

const SECOND: u64 = 1_000_000;
const START: i128 = 1_700_000_000_000_000;

/// Ten a minute, 12 at once, in steps of a second, one every 10 ms; beside it a hundred an hour.
const USUAL: Numbers =
    Numbers::new((10, 60 * SECOND), 12, SECOND, SECOND / 100).beside(100, 3_600 * SECOND);

/// Takes units one by one until it is refused; says how many there were.
fn drain(limiter: &dyn Limiter) -> u64 {
    (0..)
        .find(|_| !limiter.check(1).is_admitted())
        .expect("an end")
}

#[test]
fn the_first_and_the_last_instant_are_instants_like_others() {
    for start in [0, 1, LAST - 1, LAST] {
        for subject in every_algorithm(&USUAL) {
            let name = &subject.name;
            let (clock, limiter) = subject.limiter_at(start);
            assert_eq!(drain(&*limiter), subject.limit(), "{name} at {start}");
            let decision = limiter.check(1);
            assert!(decision.retry_after().is_some(), "{name} at {start}");
            limiter.ask(Call::Refund(u32::MAX));
            limiter.check(u32::MAX);
            clock.set(instant(LAST));
            limiter.check(1);
            clock.set(instant(0));
            let locked = i128::try_from(limiter.peek().reset_after().as_micros()).unwrap();
            assert!(locked <= LAST + subject.longest_span(), "{name} at {start}");
        }
    }
}

#[test]
fn periods_that_are_none_are_refused_by_value() {
    let too_short = [Duration::ZERO, Duration::from_nanos(999)];
    for period in too_short {
        let error = ConfigError::PeriodTooShort { period };
        assert_eq!(Quota::try_new(5, period), Err(error.clone()));
        assert_eq!(Quota::try_one_every(period), Err(error.clone()));
        assert_eq!(MinInterval::try_new(period).err(), Some(error.clone()));
        let precision = SlidingBuckets::try_new(Quota::per_second(5), period);
        assert_eq!(precision.err(), Some(error));
    }
    for period in [Duration::MAX, Quota::MAX_PERIOD + Duration::from_nanos(1)] {
        let max = Quota::MAX_PERIOD;
        let error = ConfigError::PeriodTooLong { period, max };
        assert_eq!(Quota::try_new(5, period), Err(error.clone()));
        assert_eq!(MinInterval::try_new(period).err(), Some(error));
    }
    assert!(Quota::try_new(5, Quota::MAX_PERIOD).is_ok());
}

#[test]
fn a_quota_that_cannot_be_counted_is_refused_by_value_and_never_wraps() {
    let (quota, units) = (Quota::per_day(u64::MAX), u64::MAX);
    let period = quota.period();
    let error = Some(ConfigError::QuotaTooLarge { units, period });
    assert_eq!(FixedWindow::try_new(quota).err(), error);
    assert_eq!(SlidingLog::try_new(quota).err(), error);
    assert_eq!(SlidingWindow::try_new(quota).err(), error);
    let buckets = SlidingBuckets::try_new(quota, Duration::from_secs(3_600));
    assert_eq!(buckets.err(), error);
    assert_eq!(TokenBucket::try_new(quota).err(), error);
    assert_eq!(LeakyBucket::try_new(quota).err(), error);
    assert_eq!(Gcra::try_new(quota).err(), error);
    let quota = Quota::per_day(1);
    assert_eq!(TokenBucket::new(quota).try_burst(u64::MAX).err(), error);
    assert_eq!(LeakyBucket::new(quota).try_capacity(u64::MAX).err(), error);
    let queue = LeakyBucket::new(quota).queue();
    assert_eq!(queue.try_capacity(u64::MAX).err(), error);
}

/// Quotas of every power of two and its neighbours, in every kind of period: those that are
/// accepted count exactly.
#[test]
fn the_largest_quotas_that_are_accepted_do_not_wrap() {
    let seconds = [1, 3_600, 86_400, 999_983].map(|seconds| seconds * SECOND);
    let periods = [1, 7, 1 << 51].into_iter().chain(seconds);
    for exponent in 0..64 {
        for units in [(1_u64 << exponent) - 1, 1 << exponent, (1 << exponent) | 1] {
            for period in periods.clone() {
                counts_if_accepted(Quota::new(units, Duration::from_micros(period)));
            }
        }
    }
}

/// `None` if it was refused.
fn accepted<A>(name: &'static str, rule: Result<A, ConfigError>) -> Option<Subject>
where
    A: Scripted,
{
    rule.ok().map(|rule| Subject::new(name, rule, []))
}

fn counts_if_accepted(quota: Quota) {
    let burst_of_1 = TokenBucket::try_new(quota).and_then(|rule| rule.try_burst(1));
    let buckets = SlidingBuckets::try_new(quota, quota.period());
    let accepted = [
        accepted("fixed window", FixedWindow::try_new(quota)),
        accepted("sliding log", SlidingLog::try_new(quota)),
        accepted("sliding window", SlidingWindow::try_new(quota)),
        accepted("buckets", buckets.map(SlidingBuckets::strict)),
        accepted("token bucket", TokenBucket::try_new(quota)),
        accepted("queue", LeakyBucket::try_new(quota).map(LeakyBucket::queue)),
        accepted("burst of 1", burst_of_1),
    ];
    for subject in accepted.into_iter().flatten() {
        let name = &subject.name;
        for now in [0, START, LAST] {
            let (_, limiter) = subject.limiter_at(now);
            let limit = limiter.peek().remaining();
            let burst = if *name == "burst of 1" { 1 } else { u64::MAX };
            assert_eq!(limit, quota.units().min(burst), "{name} {quota:?}");
            let cost = u32::try_from(limit).unwrap_or(u32::MAX);
            assert!(limiter.check(cost).is_admitted(), "{name} {quota:?}");
            let left = limit - u64::from(cost);
            let decision = limiter.check(u32::MAX);
            let fits = left >= u64::from(u32::MAX);
            assert_eq!(decision.is_admitted(), fits, "{name} {quota:?}");
            let one_more = limiter.check(1).is_admitted();
            assert_eq!(one_more, left > 0, "{name} {quota:?}");
        }
    }
}
