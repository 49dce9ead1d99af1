use fastrand::Rng;

use super::*;

/// The same in one list, as plainly as it can be said.
#[derive(Default)]
struct Plain {
    units: Vec<u64>,
}

impl Plain {
    fn admit(&mut self, cost: u32, slot: u64) {
        self.units.extend((0..cost).map(|_| slot));
    }

    fn forget_before(&mut self, slot: u64) {
        self.units.retain(|admitted| *admitted >= slot);
    }
}

#[test]
fn room_is_halved_where_less_than_a_quarter_of_it_is_used_and_a_little_is_kept() {
    let mut log = Admissions::of_one_entry(0, 0);
    // The last entry is not in the list.
    for slot in 1..=65 {
        log.append(&log.all(), 1, slot);
    }
    let room = log.earlier.capacity();
    assert_eq!(room, 2 * MIN_ROOM);
    let quarter = (room / SPARSE) as u64;
    for (left, room) in [(quarter, room), (quarter - 1, MIN_ROOM), (0, MIN_ROOM)] {
        log.forget(&log.counted(|entry| entry.slot < 65 - left));
        assert_eq!(log.earlier.capacity(), room, "for {left}");
    }
}

#[test]
fn it_holds_what_a_plain_list_of_units_holds() {
    let (mut log, mut plain) = (Admissions::of_one_entry(0, 0), Plain::default());
    let mut random = Rng::with_seed(1);
    let mut next = |below: u64| random.u64(..below);
    let mut slot = 0;
    for turn in 0..200_000 {
        // Now a few entries, now many, now all over at once.
        slot += next([1, 2, 3, 40][turn / 500 % 4]);
        let oldest = slot.saturating_sub([0, 1, 5, 60][turn / 130 % 4]);
        let counted = log.counted(|entry| entry.slot < oldest);
        let held = plain.units.iter().filter(|admitted| **admitted >= oldest);
        let held: Vec<u64> = held.copied().collect();
        assert_eq!(counted.units, held.len() as u64);
        if let Some(first) = held.first() {
            assert_eq!(counted.first_slot, *first);
        }
        for (index, admitted) in held.iter().enumerate() {
            assert_eq!(log.slot_of_unit(&counted, index as u64 + 1), *admitted);
        }
        match next(8) {
            0 => log.forget(&counted),
            1 => {
                let units = next(6);
                log.forget(&counted);
                log.take_out(units);
                plain.forget_before(oldest);
                plain.units.drain(..(units as usize).min(plain.units.len()));
                continue;
            }
            _ => {
                let cost = 1 + next(3) as u32;
                log.append(&counted, cost.into(), slot);
                plain.admit(cost, slot);
            }
        }
        plain.forget_before(oldest);
        let all = log.all();
        assert_eq!(all.units, plain.units.len() as u64);
        if let Some(first) = plain.units.first() {
            assert_eq!(
                (all.first_slot, log.stamp),
                (*first, plain.units[plain.units.len() - 1])
            );
        }
    }
}
