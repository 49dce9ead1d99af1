use std::time::Duration;

use super::*;

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
