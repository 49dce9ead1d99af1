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
fn a_list_of_which_little_is_left_has_room_for_little() {
    let mut log = Admissions::since(0);
    let mut admit = |slot: u64, span: u64| {
        let counted = log.counted(|entry| entry.slot + span <= slot);
        log.append(&counted, 1, slot);
        log.room()
    };
    let mut most = 0;
    for slot in 1..=100_000 {
        most = admit(slot, 1_000_000).max(most);
    }
    assert!(most >= 99_998, "{most}");
    // One of the next comes while each of the first leaves, and then all of them at once.
    let mut room = most;
    for slot in 100_001..=300_000 {
        room = admit(slot, 300_000 - slot.min(299_000));
    }
    assert!(room <= 8_000, "{room} for 1000");
    for slot in (301_000..).step_by(1_000).take(20) {
        room = admit(slot, 1_000);
    }
    assert!(room <= MIN_ROOM, "{room} for one");
}

#[test]
fn room_is_halved_where_less_than_a_quarter_of_it_is_used_and_a_little_is_kept() {
    let mut log = Admissions::since(0);
    // The first entry and the last are not in the list.
    for slot in 1..=66 {
        log.append(&log.all(), 1, slot);
    }
    let room = log.room();
    assert_eq!(room, 2 * MIN_ROOM);
    let quarter = (room / SPARSE) as u64;
    for (left, room) in [(quarter, room), (quarter - 1, MIN_ROOM), (0, MIN_ROOM)] {
        log.forget(&log.counted(|entry| entry.slot < 65 - left));
        assert_eq!(log.room(), room, "for {left}");
    }
}

#[test]
fn numbers_are_read_only_if_a_log_could_have_told_them() {
    let is_read = |numbers: &[u64]| Admissions::read(numbers).is_some();
    // What is forgotten, the total, the first entry, the slot of the last, and each between those.
    for numbers in [
        &[0, 5, 10, 2, 20, 15, 3][..],
        &[1, 5, 10, 2, 20, 15, 3, 16, 4],
        // All in one slot.
        &[0, 5, 10, 2, 10, 10, 3],
        // One entry, and none.
        &[1, 2, 10, 2, 10],
        &[2, 2, 10, 2, 10],
    ] {
        assert!(is_read(numbers), "{numbers:?}");
        for count in (0..numbers.len()).filter(|count| count % 2 == 0 || *count < 5) {
            assert!(!is_read(&numbers[..count]), "{count} of {numbers:?}");
        }
    }
    for (why, numbers) in [
        ("more is forgotten than was counted", &[3, 3, 10, 2, 20][..]),
        ("the first is forgotten", &[3, 5, 10, 2, 20]),
        ("the first has no units", &[2, 5, 10, 2, 20]),
        ("the first has more units than all", &[0, 5, 10, 6, 20]),
        ("the first comes after the last", &[0, 5, 21, 2, 20]),
        ("one comes before the first", &[0, 5, 10, 2, 20, 9, 3]),
        ("one comes after the last", &[0, 5, 10, 2, 20, 21, 3]),
        ("one has no units", &[0, 5, 10, 2, 20, 15, 2]),
        ("the last has no units", &[0, 5, 10, 2, 20, 15, 5]),
        ("two are out of order", &[0, 6, 10, 2, 20, 16, 3, 15, 4]),
        (
            "two have totals out of order",
            &[0, 6, 10, 2, 20, 15, 4, 16, 3],
        ),
    ] {
        assert!(!is_read(numbers), "{why}: {numbers:?}");
    }
}

#[test]
fn it_holds_what_a_plain_list_of_units_holds() {
    let (mut log, mut plain) = (Admissions::since(0), Plain::default());
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
