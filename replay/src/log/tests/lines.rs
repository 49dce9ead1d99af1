use std::io::{self, BufReader, Read};

use proptest::prelude::*;

use super::{cases, read_all};
use crate::log::{Format, Options, Reader, Why};

const LINE: &str = "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 2";

#[test]
fn lines_may_end_in_any_way_and_be_empty() {
    let json = "\u{FEFF}{\"ts\":1762938841,\"method\":\"GET\",\"path\":\"/\"}";
    for (log, requests, other) in [
        ("", 0, 0),
        ("\n", 0, 1),
        ("\r\n \t\n", 0, 2),
        (LINE, 1, 0),
        (&format!("{LINE}\n"), 1, 0),
        (&format!("{LINE}\r\n{LINE}"), 2, 0),
        (&format!("\u{FEFF}{LINE}\n\n{LINE}\n"), 2, 1),
        (&format!("\u{FEFF}{LINE}"), 1, 0),
        (json, 1, 0),
    ] {
        let (read, reader) = read_all(log.as_bytes(), None);
        assert_eq!((read.len(), reader.other()), (requests, other), "{log:?}");
        assert_eq!(reader.unreadable().count(), 0, "{log:?}");
        assert_eq!(reader.read_bytes(), log.len() as u64, "{log:?}");
    }
}

#[test]
fn a_line_of_any_length_is_read_in_constant_memory() {
    let long = io::repeat(b'a').take(100_000_000);
    let log = LINE.as_bytes().chain(&b"\n"[..]).chain(long);
    let log = log.chain(&b"\n"[..]).chain(LINE.as_bytes());
    let log = BufReader::with_capacity(32 * 1024, log);
    let (requests, reader) = read_all(log, Some(Format::Combined));
    assert_eq!(requests.len(), 2);
    let [long] = reader.unreadable().first() else {
        panic!("{:?}", reader.unreadable());
    };
    assert_eq!((long.number, long.why), (2, Why::TooLong));
    assert!(long.text.starts_with("aaa") && long.text.ends_with("a…"));
    assert!(long.text.len() < 200, "{}", long.text);
    assert_eq!(reader.read_bytes(), 100_000_002 + 2 * LINE.len() as u64);
    let held = reader.held_for_a_line();
    assert!(held <= 128 * 1024 + 2, "{held}");
}

#[test]
fn a_line_may_have_as_many_bytes_as_allowed_and_no_more() {
    let allowed = Options {
        max_line_bytes: LINE.len(),
        ..Options::default()
    };
    for capacity in [1, 7, 1000] {
        for end in ["", "\n", "\r\n", " ", " \n"] {
            let is_read = !end.starts_with(' ');
            let log = format!("{LINE}{end}");
            let input = BufReader::with_capacity(capacity, log.as_bytes());
            let mut reader = Reader::new(input, Some(Format::Combined), allowed.clone()).unwrap();
            assert_eq!(reader.by_ref().count(), usize::from(is_read), "{end:?}");
            assert_eq!(reader.unreadable().count(), u64::from(!is_read), "{end:?}");
        }
    }
}

#[test]
fn unreadable_lines_are_counted_and_the_first_are_kept() {
    let log = LINE.replace(" 200 ", " 1000 ") + "\n" + LINE + "\n" + &"what?\n".repeat(10);
    let (requests, reader) = read_all(log.as_bytes(), Some(Format::Combined));
    let unreadable = reader.unreadable();
    assert_eq!((requests.len(), unreadable.count()), (1, 11));
    let first = unreadable
        .first()
        .iter()
        .map(|line| (line.number, line.why));
    let others = (3..=6).map(|number| (number, Why::NotCombined));
    assert!(first.eq([(1, Why::Status)].into_iter().chain(others)));
}

#[test]
fn an_error_of_the_input_is_given_out_and_no_request_before_it_is_lost() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk"))
        }
    }
    let lines = format!("{LINE}\n{LINE}\n");
    let log = BufReader::new(lines.as_bytes().chain(Fails));
    let mut reader = Reader::new(log, Some(Format::Combined), Options::default()).unwrap();
    let first = reader.next().unwrap();
    assert_eq!(first.unwrap_err().to_string(), "the disk");
    assert!(reader.map(|logged| logged.is_ok()).eq([true, true]));
}

#[test]
fn a_compressed_log_is_an_error_that_says_what_reads_it_whatever_form_it_is_said_to_have() {
    for (log, program) in [
        (&b"\x1F\x8B\x08\x00rest"[..], "`zcat "),
        (b"\x28\xB5\x2F\xFDrest", "`zstdcat "),
        (b"BZh9rest", "`bzcat "),
        (b"\xFD7zXZ\0rest", "`xzcat "),
    ] {
        for format in [None, Some(Format::Json)] {
            // A pipe may give one byte at a time.
            for capacity in [1, 100] {
                let input = BufReader::with_capacity(capacity, log);
                let read = Reader::new(input, format, Options::default());
                let error = read.err().unwrap();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                assert!(error.to_string().contains(program), "{error}");
            }
        }
    }
}

#[test]
fn the_form_is_that_of_most_of_the_first_lines() {
    let trace = "2025-11-12T09:14:01.25Z  INFO main: listening";
    let json = "{\"level\":\"info\"}";
    for (lines, format) in [
        (&[LINE][..], Some(Format::Combined)),
        (&[json], Some(Format::Json)),
        (&[trace], Some(Format::Trace)),
        (&["junk", "", LINE], Some(Format::Combined)),
        (&[json, LINE, LINE], Some(Format::Combined)),
        (&[json, trace, json], Some(Format::Json)),
        (&[trace, "panicked", trace], Some(Format::Trace)),
        (&["junk", ""], None),
        (&[], None),
    ] {
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes()).collect();
        assert_eq!(Format::detect(&lines), format, "{lines:?}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn what_is_read_does_not_depend_on_how_the_bytes_come(
        parts in prop::collection::vec(prop_oneof![
            Just("\n"), Just("\r"), Just("\r\n"), Just(LINE), Just("junk"), Just("  "),
        ], 0..20),
        capacity in 1..100_usize,
    ) {
        let log = parts.concat();
        let (whole, by_slice) = read_all(log.as_bytes(), Some(Format::Combined));
        let input = BufReader::with_capacity(capacity, log.as_bytes());
        let (in_parts, by_parts) = read_all(input, Some(Format::Combined));
        prop_assert_eq!(whole, in_parts);
        prop_assert_eq!(by_slice.unreadable(), by_parts.unreadable());
        prop_assert_eq!(by_slice.other(), by_parts.other());
        prop_assert_eq!(by_parts.read_bytes(), log.len() as u64);
        prop_assert_eq!(by_parts.read_lines(), log.lines().count() as u64);
    }
}
