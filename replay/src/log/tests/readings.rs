//! The lines in `tests/logs`, by their form: below each line stands what is read of it.

use std::fmt::Write;

use http::{HeaderMap, HeaderName, header};

use super::{headers, read_all};
use crate::{
    log::{
        Format, PackedHeaders, Why,
        headers::{Kept, X_FORWARDED_FOR},
        time::LastTime,
    },
    logged::Logged,
};

const FORMS: [(Format, &str); 3] = [
    (
        Format::Combined,
        include_str!("../../../tests/logs/combined.txt"),
    ),
    (Format::Json, include_str!("../../../tests/logs/json.txt")),
    (Format::Trace, include_str!("../../../tests/logs/trace.txt")),
];

/// How a reading is set apart from its line.
const INDENT: &str = "    ";

/// What is read of a line.
type Read = Result<Option<Box<Logged>>, Why>;

fn in_words(read: &Read) -> String {
    let logged = match read {
        Ok(Some(logged)) => logged,
        Ok(None) => return "no request".to_owned(),
        Err(why) => return format!("unreadable: {why}"),
    };
    let seconds = logged.started_micros / 1_000_000;
    let micros = logged.started_micros % 1_000_000;
    let mut words = format!("{} {} at {seconds}.{micros:06}", logged.method, logged.uri);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            write!(words, ", {name} {value}").unwrap();
        }
    };
    add(
        "took",
        logged.took_micros.map(|micros| format!("{micros} us")),
    );
    add("status", logged.status.map(|status| status.to_string()));
    add("from", logged.address.map(|address| address.to_string()));
    add("user", logged.user.as_ref().map(|user| format!("{user:?}")));
    for (name, value) in &headers(logged) {
        add(&format!("{name}:"), Some(format!("{value:?}")));
    }
    words
}

fn is_example(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#') && !line.starts_with(INDENT)
}

/// The lines of all forms.
pub(super) fn lines() -> Vec<&'static str> {
    let lines = FORMS.iter().flat_map(|(_, text)| text.lines());
    lines.filter(|line| is_example(line)).collect()
}

#[test]
fn each_line_is_read_as_it_says_below_it() {
    for (format, text) in FORMS {
        let mut last_time = LastTime::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if is_example(line) {
                let read = format.read(line.as_bytes(), &mut last_time, &Kept::new(None));
                let below = lines.next().and_then(|line| line.strip_prefix(INDENT));
                assert_eq!(below, Some(&*in_words(&read)), "below {line}");
            }
        }
    }
}

#[test]
fn only_the_header_fields_that_are_asked_for_are_kept_and_all_else_is_as_with_them() {
    let x_key = HeaderName::from_static("x-key");
    let one = vec![header::USER_AGENT];
    for kept in [vec![], one, vec![x_key, X_FORWARDED_FOR]] {
        for (format, text) in FORMS {
            for line in text.lines().filter(|line| is_example(line)) {
                let read = |kept| {
                    let kept = Kept::new(kept);
                    format.read(line.as_bytes(), &mut LastTime::default(), &kept)
                };
                let mut all = read(None);
                if let Ok(Some(logged)) = &mut all {
                    let mut asked_for = HeaderMap::new();
                    for (name, value) in &headers(logged) {
                        if kept.contains(name) {
                            asked_for.append(name, value.clone());
                        }
                    }
                    logged.headers = PackedHeaders::from(&asked_for);
                }
                assert_eq!(
                    in_words(&read(Some(kept.clone()))),
                    in_words(&all),
                    "{line}"
                );
            }
        }
    }
}

#[test]
fn half_a_line_of_the_combined_format_cannot_be_read() {
    let whole = "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"";
    let after_size = whole.find(" \"-\"").unwrap();
    for cut in 1..=whole.len() {
        let half = &whole[..cut];
        let (requests, reader) = read_all(half.as_bytes(), Some(Format::Combined));
        // Up to the size it is the common format.
        let is_whole = cut >= after_size && half.matches('"').count().is_multiple_of(2);
        assert_eq!(requests.len(), usize::from(is_whole), "{half}");
        assert_eq!(reader.unreadable().count(), u64::from(!is_whole), "{half}");
    }
}

#[test]
fn json_that_no_server_writes_cannot_be_read() {
    let why = |line: &str| {
        let (_, reader) = read_all(line.as_bytes(), Some(Format::Json));
        reader.unreadable().first().first().map(|line| line.why)
    };
    assert_eq!(why(&"{\"a\":".repeat(1_000)), Some(Why::NotJson));
    let with_fields = |count: u32| {
        let fields: String = (0..count)
            .map(|at| format!(",\"http_x{at}\":\"v\""))
            .collect();
        let line = "{\"ts\":1762938841,\"method\":\"GET\",\"path\":\"/a\"";
        why(&format!("{line}{fields}}}"))
    };
    assert_eq!([256, 257].map(with_fields), [None, Some(Why::Header)]);
}
