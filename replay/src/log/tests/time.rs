use jiff::{Timestamp, fmt::strtime, tz::Offset};
use proptest::prelude::*;

use super::cases;
use crate::log::{Why, time};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_common_time_is_what_the_library_reads(
        second in 0..=9_000_000_000_i64,
        offset_minutes in -14 * 60..=14 * 60_i32,
    ) {
        let zone = Offset::from_seconds(offset_minutes * 60).unwrap().to_time_zone();
        let instant = Timestamp::from_second(second).unwrap();
        let text = strtime::format("%d/%b/%Y:%H:%M:%S %z", &instant.to_zoned(zone)).unwrap();
        prop_assert_eq!(time::common(text.as_bytes()), Ok(second as u64 * 1_000_000));
    }

    #[test]
    fn text_that_the_library_does_not_read_is_no_common_time(
        text in "[0-9]{2}/(Jan|Feb|Mar|Sep|Okt)/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}",
    ) {
        let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", &text);
        match (time::common(text.as_bytes()), parsed.and_then(|parts| parts.to_timestamp())) {
            (Ok(micros), Ok(instant)) => {
                prop_assert_eq!(micros as i64, instant.as_microsecond());
            }
            (Err(Why::TimeOutOfRange), Ok(instant)) => {
                let year = instant.to_zoned(jiff::tz::TimeZone::UTC).year();
                prop_assert!(!(1970..2255).contains(&year), "{}", text);
            }
            (Err(Why::Time), Ok(_)) => {
                // A leap second, which no clock of a server has.
                prop_assert!(text.contains(":60 "), "{}", text);
            }
            (read, Err(_)) => prop_assert!(read.is_err(), "{}", text),
            (read, parsed) => prop_assert!(false, "{}: {:?}, {:?}", text, read, parsed),
        }
    }
}

#[test]
fn a_time_is_read_in_every_form() {
    let micros = 1_762_938_841_250_000;
    for text in [
        "2025-11-12T09:14:01.25Z",
        "2025-11-12T09:14:01.250000+00:00",
        "2025-11-12t10:14:01.250+01:00",
        "2025-11-12 09:14:01.25Z",
        "1762938841.250",
        "1762938841250",
        "1762938841250000",
        "1762938841250000000",
        "12/Nov/2025:09:14:01.250 +0000",
    ] {
        assert_eq!(time::text(text), Ok(micros), "{text}");
    }
    for text in [
        "",
        "yesterday",
        "2025-11-12",
        "2025-11-12T09:14:01",
        "09:14:01",
    ] {
        assert_eq!(time::text(text), Err(Why::Time), "{text}");
    }
    for text in [
        "-1",
        "NaN",
        "inf",
        "1e300",
        "1960-01-01T00:00:00Z",
        "9999-01-01T00:00:00Z",
    ] {
        assert_eq!(time::text(text), Err(Why::TimeOutOfRange), "{text}");
    }
}

#[test]
fn a_time_since_1970_keeps_its_microseconds() {
    assert_eq!(time::epoch(1_762_938_841.432_1), Ok(1_762_938_841_432_100));
    assert_eq!(time::text("1762938841.999999"), Ok(1_762_938_841_999_999));
}

#[test]
fn a_duration_is_read_with_its_unit_or_without() {
    for (text, micros) in [
        ("0.123", 123_000),
        ("0 ms", 0),
        ("12 ms", 12_000),
        ("12ms", 12_000),
        ("1.234567 s", 1_234_567),
        ("0.0123456789012345 s", 12_346),
        ("17 μs", 17),
        ("17 µs", 17),
        ("17us", 17),
        ("1500 ns", 2),
        ("1m2.5s", 62_500_000),
    ] {
        assert_eq!(time::duration_text(text, 1e6), Some(Ok(micros)), "{text}");
    }
    for text in [
        "1e300",
        "NaN",
        "-1",
        "-1 ms",
        "inf",
        "99999999999999 s",
        "-1m2s",
    ] {
        assert_eq!(
            time::duration_text(text, 1e6),
            Some(Err(Why::Duration)),
            "{text}"
        );
    }
    for text in ["", "-", "soon", "12 parsecs", "192.0.2.1", "p", "."] {
        assert_eq!(time::duration_text(text, 1e6), None, "{text}");
    }
}
