use std::time::Duration;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    let quota = Quota::new(7, Duration::from_micros(100));
    for capacity in [0, 1, 7, 20] {
        let bucket = DebtBucket::new("debt-bucket", quota, capacity).unwrap();
        let mut state = bucket.fresh(Timestamp::from_micros(1_000));
        let mut other = state.clone();
        let mut random = 1_u64;
        for _ in 0..100_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let now = Timestamp::from_micros(1_000 + (random >> 40) % 1_500);
            let cost = u32::try_from((random >> 33) % 23).unwrap();
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
