use proptest::prelude::*;

use super::{cases, read_all, readings};
use crate::log::{Format, reader::is_not_compressed};

/// What lines are broken with, beside bytes.
const PIECES: &str = "\",\\,\\x,\\x2,[,],] \",{,},:, ,-,.,\x1B[,m,1e300,NaN,inf,99999999999999999999999,-1,\
    \u{FEFF},\\u0000,\\ud800,null,[[[[[[,0.0000000000000000000001,9999-12-31T23:59:59Z,é,μs";

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        prop::sample::select(PIECES.split(',').collect::<Vec<_>>())
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// Each line is a request, something else, or unreadable; in every form, and in the one found out.
fn assert_each_line_is_counted_once(log: &[u8]) {
    let mut formats: Vec<_> = Format::ALL.into_iter().map(Some).collect();
    let lines: Vec<_> = log.split(|byte| *byte == b'\n').collect();
    formats.extend(Format::detect(&lines).map(Some));
    for format in formats {
        let (requests, reader) = read_all(log, format);
        let counted = requests.len() as u64 + reader.other() + reader.unreadable().count();
        assert_eq!(counted, reader.read_lines());
        assert_eq!(reader.read_bytes(), log.len() as u64);
        assert!(requests.is_sorted_by_key(|logged| logged.started_micros));
        let mut starts = requests.iter().map(|logged| logged.started_micros);
        assert!(starts.all(|start| start < 1 << 53));
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn arbitrary_bytes_are_read_without_a_panic(
        log in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        // A compressed log is an error, which another test is about: one run in thirty makes one.
        prop_assume!(is_not_compressed(&log).is_ok());
        assert_each_line_is_counted_once(&log);
    }

    #[test]
    fn lines_that_are_broken_are_read_without_a_panic(
        line in prop::sample::select(readings::lines()),
        breaks in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, piece()), 1..5),
    ) {
        let mut log = line.as_bytes().to_vec();
        for (at, removed, piece) in breaks {
            let at = at.index(log.len() + 1);
            let end = (at + removed).min(log.len());
            log.splice(at..end, piece);
        }
        assert_each_line_is_counted_once(&log);
    }
}

#[test]
fn lines_that_are_cut_anywhere_are_read_without_a_panic() {
    for line in readings::lines().into_iter().step_by(8) {
        for cut in 0..=line.len() {
            assert_each_line_is_counted_once(&line.as_bytes()[..cut]);
            assert_each_line_is_counted_once(&line.as_bytes()[cut..]);
        }
    }
}
