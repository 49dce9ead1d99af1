use std::time::Duration;

use fastrand::Rng;

use super::*;

/// The one number is rounded up, so that nothing is paid off early, and less than a tick is lost.
#[test]
fn under_another_rate_the_same_time_is_owed() {
    let at = |micros: u64| Timestamp::from_micros(1_000_000 + micros);
    let mut random = Rng::with_seed(1);
    for _ in 0..100_000 {
        let mut bucket = || {
            let quota = Quota::new(random.u64(1..50), Duration::from_micros(random.u64(1..50)));
            DebtBucket::new("debt-bucket", quota)
                .unwrap()
                .with_burst(1_000)
                .unwrap()
        };
        let (one, other) = (bucket(), bucket());
        let mut state = one.fresh(at(0));
        one.debit(&mut state, random.u64(1..1_000), at(0));
        let recovers_after = state.debt.div_ceil(state.speed);
        let mut moved = state;
        other.debit(&mut moved, 0, at(0));
        assert_eq!(moved.speed, other.rate);
        for (bucket, state) in [(&one, &state), (&other, &state), (&other, &moved)] {
            let is_fresh =
                [recovers_after - 1, recovers_after].map(|m| bucket.is_fresh(state, at(m)));
            assert_eq!(is_fresh, [false, true], "{one:?} {other:?}");
        }
    }
}

#[test]
fn the_largest_numbers_are_counted_in_microseconds_and_larger_ones_are_refused() {
    let tick = |units_per_micro, capacity| {
        let quota = Quota::new(units_per_micro, Duration::from_micros(1));
        let bucket = DebtBucket::new("debt-bucket", quota).unwrap();
        let bucket = bucket.with_burst(capacity).ok();
        bucket.map(|bucket| bucket.tick_micros)
    };
    // All parts that may be owed, with those of one tick more.
    assert_eq!(tick(4, (1 << 53) - 4), Some(1));
    assert_eq!(tick(4, (1 << 53) - 3), None);
    // From full debt to none.
    assert_eq!(tick(1, 1 << 52), Some(1));
    assert_eq!(tick(1, (1 << 52) + 1), None);
}

#[test]
fn a_wait_is_as_long_as_can_be_counted_and_no_longer() {
    let bucket = DebtBucket::new("debt-bucket", Quota::per_second(1)).unwrap();
    let years = |years: u64| Duration::from_secs(years * 365 * 86_400);
    assert!(bucket.with_wait(years(100)).is_ok());
    for wait in [1 << 52, u64::MAX / 2, u64::MAX].map(Duration::from_micros) {
        assert!(bucket.with_wait(wait).is_err(), "{wait:?}");
    }
    assert!(bucket.with_wait(Duration::MAX).is_err());
}

#[test]
fn a_bucket_whose_requests_wait_keeps_its_name_and_is_won_back_in_the_wait_too() {
    let bucket = DebtBucket::new("debt-bucket", Quota::per_second(5)).unwrap();
    let bucket = bucket.with_burst(11).unwrap();
    assert_eq!(bucket.policy.window_micros(), 2_200_000);
    let waits = |bucket: &DebtBucket| {
        let waits = bucket.with_wait(Duration::from_secs(3)).unwrap();
        (waits.policy.name().to_owned(), waits.policy.window_micros())
    };
    let name = "debt-bucket-5-1s-b11-w3s";
    assert_eq!(waits(&bucket), (name.to_owned(), 5_200_000));
    let policy = bucket.policy.clone().named("api").unwrap();
    let named = DebtBucket { policy, ..bucket };
    assert_eq!(waits(&named), ("api".to_owned(), 5_200_000));
}
