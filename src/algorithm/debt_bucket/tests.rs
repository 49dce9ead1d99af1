use std::time::Duration;

use fastrand::Rng;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    let quota = Quota::new(7, Duration::from_micros(100));
    for capacity in [0, 1, 7, 20] {
        let bucket = DebtBucket::new("debt-bucket", quota, capacity).unwrap();
        let mut state = bucket.fresh(Timestamp::from_micros(1_000));
        let mut other = state.clone();
        let mut random = Rng::with_seed(1);
        for _ in 0..100_000 {
            let now = Timestamp::from_micros(1_000 + random.u64(..1_500));
            let cost = random.u32(..23);
            let step = bucket.step(&mut state, cost, now);
            bucket.mend(&mut other, now);
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

/// Processes of other builds share a state by it.
#[test]
fn an_id_tells_numbers_apart_and_is_the_same_in_every_build() {
    let id = |capacity_parts, parts_per_tick, tick_micros| {
        let rate = Rate {
            capacity_parts,
            parts_per_unit: 1_000_000,
            parts_per_tick,
            tick_micros,
            span_ticks: 1_000_000,
        };
        rate.id()
    };
    assert_eq!(id(5_000_000, 5, 1), 0x1e_59a1_11d4_17ea);
    assert_eq!(id(5_000_000, 5, 10), 0x1f_1dbb_3ec3_377a);
    assert_eq!(id(5_000_000, 4, 1), 0x4_b468_6b4e_c23e);
}

#[test]
fn numbers_are_read_only_if_a_bucket_could_have_told_them() {
    let bucket = DebtBucket::new("debt-bucket", Quota::per_second(5), 5).unwrap();
    let is_read = |numbers: &[&[u64]]| bucket.state(&numbers.concat()).is_some();
    let (rate, coarse, nothing_further) = ([10, 2, 1, 1], [10, 2, 1, 1_000_000], [0; 4]);
    // A count alone, under a plan, and beside another plan with its count and its end.
    for numbers in [
        &[&[3, 9][..]][..],
        &[&[MAX_PARTS, MAX_PARTS]],
        &[&[3, 9], &rate, &nothing_further],
        &[
            &[3, MAX_PARTS.div_ceil(1_000_000)],
            &coarse,
            &nothing_further,
        ],
        &[&[3, 9], &rate, &[7, 8, 9, 10], &coarse, &[4, 5, 6]],
    ] {
        assert!(is_read(numbers), "{numbers:?}");
        let all = numbers.concat();
        assert!(!is_read(&[&all, &[0]]), "one more than {all:?}");
        for count in (0..all.len()).filter(|count| ![2, 10].contains(count)) {
            assert!(!is_read(&[&all[..count]]), "{count} of {all:?}");
        }
    }
    for numbers in [
        &[&[MAX_PARTS + 1, 9][..]][..],
        &[&[3, MAX_PARTS + 1]],
        &[&[MAX_PARTS + 1, 9], &rate, &nothing_further],
        &[
            &[3, MAX_PARTS.div_ceil(1_000_000) + 1],
            &coarse,
            &nothing_further,
        ],
        // A unit without parts, and ticks that are no power of ten or too long.
        &[&[3, 9], &[10, 0, 1, 1], &nothing_further],
        &[&[3, 9], &[10, 2, 1, 7], &nothing_further],
        &[&[3, 9], &[10, 2, 1, 10_000_000], &nothing_further],
        &[&[3, 9], &rate, &nothing_further, &[10, 0, 1, 1], &[4, 5, 6]],
        &[
            &[3, 9],
            &rate,
            &nothing_further,
            &rate,
            &[MAX_PARTS + 1, 5, 6],
        ],
    ] {
        assert!(!is_read(numbers), "{numbers:?}");
    }
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
fn other_plans_are_told_microseconds_and_units_whatever_the_tick() {
    let rate = Rate {
        capacity_parts: 20,
        parts_per_unit: 6,
        parts_per_tick: 5,
        tick_micros: 10,
        span_ticks: 4,
    };
    let count = Debt { parts: 13, tick: 7 };
    assert_eq!(rate.units(count), 3);
    assert_eq!(rate.stamp(count), 70);
    assert_eq!(rate.matters_until(count), 100);
    for now in [100, 109].map(Timestamp::from_micros) {
        assert!(!rate.is_ahead(149, now));
        assert!(rate.is_ahead(150, now));
    }
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
    assert_eq!(bucket.policy().window_micros(), 2_200_000);
    let waits = |bucket: &DebtBucket| {
        let waits = bucket.with_wait(Duration::from_secs(3)).unwrap();
        (
            waits.policy().name().to_owned(),
            waits.policy().window_micros(),
        )
    };
    let name = "debt-bucket-5-1s-b11-w3s";
    assert_eq!(waits(&bucket), (name.to_owned(), 5_200_000));
    let named = bucket.named("api").unwrap();
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

/// Whether a Lua number holds it.
fn is_exact(number: u64) -> bool {
    number as f64 as u64 == number
}

#[test]
fn the_largest_numbers_are_those_that_lua_holds_and_that_are_read_back() {
    assert!(is_exact(MAX_PARTS) && is_exact(MAX_PARTS + 1) && !is_exact(MAX_PARTS + 2));
    let read = |number| next_of(&mut &[number][..]);
    assert!(is_exact(MAX_EXPIRY_MICROS) && read(MAX_EXPIRY_MICROS) == Some(MAX_EXPIRY_MICROS));
    assert_eq!(read(MAX_EXPIRY_MICROS + 2), None);
}
