use super::*;

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
fn what_is_forgotten_in_numbers_counts_no_more() {
    let log = Admissions::read(&[5, 9, 1, 6, 2]).expect("two entries, of 1 and of 3 units");
    assert_eq!(log.all().units, 4);
}
