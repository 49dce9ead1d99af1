use std::time::Duration;

use super::*;

#[test]
fn a_step_is_what_its_parts_are() {
    let logs = [(0, 1), (1, 1), (7, 1), (20, 10), (20, 50)].map(|(units, slot)| {
        let quota = Quota::new(units, Duration::from_micros(100));
        let policy = Policy::new("log", &[units], quota.period());
        Log::new(policy, quota, slot, 100 + slot).unwrap()
    });
    let mut state = logs[0].fresh(Timestamp::from_micros(1_000));
    let mut other = state.clone();
    let mut random = 1_u64;
    for turn in 0..500_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // Under one log after the other, on a clock that goes both ways.
        let log = &logs[turn / 1_000 % logs.len()];
        let width = [1_500, 30][turn / 100 % 2];
        let now = Timestamp::from_micros(1_000 + turn as u64 / 10 + (random >> 40) % width);
        let cost = u32::try_from((random >> 33) % 23 / 3).unwrap();
        let step = log.step(&mut state, cost, now);
        log.mend(&mut other, now);
        let admitted = log.judge(&other, cost, now);
        if admitted && cost > 0 {
            log.charge(&mut other, cost, now);
        }
        let snapshot = log.snapshot(&other, cost, admitted, now);
        assert_eq!(step, (admitted, snapshot));
        assert_eq!(format!("{state:?}"), format!("{other:?}"));
    }
}

/// Processes of other builds share a state by it.
#[test]
fn an_id_tells_numbers_apart_and_is_the_same_in_every_build() {
    let id = |slot_micros| {
        let reach = Reach {
            micros: 1_000_000,
            units: 5,
            slot_micros,
        };
        reach.id()
    };
    assert_eq!(id(1), 0x0016_bbfb_e7c9_1aa1);
    assert_eq!(id(1_000), 0x000a_90da_76c8_ef09);
}
