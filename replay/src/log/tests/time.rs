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
