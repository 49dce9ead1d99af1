use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    let quota = Quota::new(7, Duration::from_micros(100));
    let faster = Quota::new(9, Duration::from_micros(100));
    for capacity in [0, 1, 7, 20] {
        let buckets =
            [quota, faster].map(|quota| DebtBucket::new("debt-bucket", quota, capacity).unwrap());
        let mut state = buckets[0].fresh(Timestamp::from_micros(1_000));
        let mut other = state;
        let mut random = Rng::with_seed(1);
        for turn in 0..100_000 {
            let bucket = &buckets[turn / 100 % 2];
            let now = Timestamp::from_micros(1_000 + random.u64(..1_500));
            let cost = random.u32(..23);
            let step = bucket.step(&mut state, cost, now);
            let admitted = bucket.judge(&other, cost, now);
            if admitted && cost > 0 {
                bucket.charge(&mut other, cost, now);
            }
            let snapshot = bucket.snapshot(&other, cost, admitted, now);
            assert_eq!(step, (admitted, snapshot));
            assert_eq!(state, other);
        }
    }
}

#[test]
fn numbers_are_read_only_if_a_bucket_could_have_told_them() {
    let bucket = DebtBucket::new("debt-bucket", Quota::per_second(5), 5).unwrap();
    let is_read = |numbers: &[u64]| bucket.state(Timestamp::from_micros(9), numbers).is_some();
    for numbers in [[3, 1], [3, 7], [MAX_PARTS, MAX_PARTS], [0, 0]] {
        assert!(is_read(&numbers), "{numbers:?}");
    }
    // Too much, what nobody pays, one number, and one too many.
    for numbers in [&[MAX_PARTS + 1, 1][..], &[3, 0], &[3], &[3, 1, 0]] {
        assert!(!is_read(numbers), "{numbers:?}");
    }
    let is_exact = |number: u64| number as f64 as u64 == number;
    assert!(is_exact(MAX_PARTS) && is_exact(MAX_PARTS + 1) && !is_exact(MAX_PARTS + 2));
}

/// The one number is rounded up, so that nothing is paid off early, and less than a tick is lost.
#[test]
fn under_another_rate_the_same_time_is_owed() {
    let at = |micros: u64| Timestamp::from_micros(1_000_000 + micros);
    let mut random = Rng::with_seed(1);
    for _ in 0..100_000 {
        let mut bucket = || {
            let quota = Quota::new(random.u64(1..50), Duration::from_micros(random.u64(1..50)));
            DebtBucket::new("debt-bucket", quota, 1_000).unwrap()
        };
        let (one, other) = (bucket(), bucket());
        let mut state = one.fresh(at(0));
        one.debit(&mut state, random.u64(1..1_000), at(0));
        let recovers_after = state.debt.parts.div_ceil(state.parts_per_tick);
        let mut moved = state;
        other.debit(&mut moved, 0, at(0));
        assert_eq!(moved.parts_per_tick, other.rate.parts_per_tick);
        for (bucket, state) in [(&one, &state), (&other, &state), (&other, &moved)] {
            let is_fresh =
                [recovers_after - 1, recovers_after].map(|m| bucket.is_fresh(state, at(m)));
            assert_eq!(is_fresh, [false, true], "{one:?} {other:?}");
        }
    }
}

#[test]
fn an_earlier_time_counts_as_that_of_the_state() {
    let at = |micros: u64| Timestamp::from_micros(1_000_000 + micros);
    // A unit comes back in ten microseconds.
    let quota = Quota::new(1, Duration::from_micros(10));
    let bucket = DebtBucket::new("debt-bucket", quota, 2).unwrap();
    let mut state = bucket.fresh(at(100));
    for (now, admits) in [
        (100, true),
        (50, true),
        (109, false),
        (0, false),
        (110, true),
    ] {
        assert_eq!(bucket.step(&mut state, 1, at(now)).0, admits, "at {now}");
    }
    assert!(!bucket.is_fresh(&state, at(0)));
}

#[test]
fn the_largest_numbers_are_counted_in_microseconds_and_larger_ones_are_refused() {
    let tick = |units_per_micro, capacity| {
        let quota = Quota::new(units_per_micro, Duration::from_micros(1));
        let bucket = DebtBucket::new("debt-bucket", quota, capacity).ok();
        bucket.map(|bucket| bucket.rate.tick_micros)
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
    let bucket = DebtBucket::new("debt-bucket", Quota::per_second(1), 1).unwrap();
    let years = |years: u64| Duration::from_secs(years * 365 * 86_400);
    assert!(bucket.with_wait(years(100)).is_ok());
    for wait in [1 << 52, u64::MAX / 2, u64::MAX].map(Duration::from_micros) {
        assert!(bucket.with_wait(wait).is_err(), "{wait:?}");
    }
    assert!(bucket.with_wait(Duration::MAX).is_err());
}

#[test]
fn a_bucket_whose_requests_wait_keeps_its_name_and_is_won_back_in_the_wait_too() {
    let bucket = DebtBucket::new("debt-bucket", Quota::per_second(5), 11).unwrap();
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

#[test]
fn what_is_never_paid_back_is_not_owed() {
    let bucket = DebtBucket::new("debt-bucket", Quota::per_day(0), 5).unwrap();
    let now = Timestamp::from_micros(1_000);
    let mut state = bucket.fresh(now);
    bucket.debit(&mut state, 7, now);
    assert!(bucket.is_fresh(&state, now));
    assert!(!bucket.judge(&state, 1, now));
}
