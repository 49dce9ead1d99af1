use http::HeaderName;

use super::headers;
use crate::log::{Format, Options, Reader, Why};

/// A line of each form, with a `User-Agent` and an `X-Forwarded-For`; the agent is this.
fn lines(agent: &str) -> [(Format, String); 3] {
    let combined = format!(
        "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 2 \"-\" \"{agent}\" \
         \"198.51.100.7\""
    );
    let json = format!(
        "{{\"time\":\"2025-11-12T09:14:01Z\",\"request\":\"GET / HTTP/1.1\",\"status\":200,\
         \"headers\":{{\"User-Agent\":[\"{agent}\"]}},\"http_x_forwarded_for\":\"198.51.100.7\"}}"
    );
    let trace = format!(
        "2025-11-12T09:14:01.5Z DEBUG request{{method=GET uri=/ headers={{\"user-agent\": \
         \"{agent}\", \"x-forwarded-for\": \"198.51.100.7\"}}}}: finished processing request \
         latency=12 ms status=200"
    );
    let forms = [Format::Combined, Format::Json, Format::Trace];
    let mut lines = [combined, json, trace].into_iter();
    forms.map(|form| (form, lines.next().unwrap()))
}

/// The names of the fields of a line's request, if these are kept.
fn names(format: Format, line: &str, kept: &[&'static str]) -> Result<Vec<String>, Why> {
    let kept = kept.iter().map(|name| HeaderName::from_static(name));
    let options = Options {
        header_names: Some(kept.collect()),
        ..Options::default()
    };
    let mut reader = Reader::new(line.as_bytes(), Some(format), options).unwrap();
    match reader.next() {
        Some(logged) => {
            let headers = headers(&logged.unwrap());
            Ok(headers.keys().map(|name| name.to_string()).collect())
        }
        None => Err(reader.unreadable().first()[0].why),
    }
}

#[test]
fn only_the_header_fields_that_are_asked_for_are_kept() {
    for (format, line) in lines("curl") {
        for kept in [
            &["user-agent"][..],
            &["x-forwarded-for"],
            &["x-forwarded-for", "x-other"],
            &[],
        ] {
            let expected: Vec<_> = kept
                .iter()
                .copied()
                .filter(|name| *name != "x-other")
                .collect();
            assert_eq!(names(format, &line, kept).unwrap(), expected, "{line}");
        }
    }
}

#[test]
fn what_can_be_read_does_not_depend_on_what_is_kept() {
    let wrong = [r"a\x07b", r"a\u0007b", "a\u{7}b"];
    for (at, agent) in wrong.into_iter().enumerate() {
        let (format, line) = &lines(agent)[at];
        for kept in [&["user-agent"][..], &["x-forwarded-for"], &[]] {
            assert_eq!(names(*format, line, kept), Err(Why::Header), "{line}");
        }
    }
}
