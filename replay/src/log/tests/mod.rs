//! What is claimed of all forms of logs.

mod address;
mod combined;
mod json;
mod kept;
mod lines;
mod never_panics;
mod real_traces;
mod samples;
mod time;
mod trace;
mod window;

use std::io::BufRead;

use http::HeaderMap;
use proptest::test_runner::Config;

use super::{Format, Options, Reader, Why};
use crate::logged::Logged;

/// So many cases of a property. One that fails is printed, and not written beside the source.
fn cases(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// All requests of a log, and the reader after them.
fn read_all<R: BufRead>(log: R, format: Option<Format>) -> (Vec<Logged>, Reader<R>) {
    let mut reader = Reader::new(log, format, Options::default()).unwrap();
    let requests = reader.by_ref().map(|logged| *logged.unwrap()).collect();
    (requests, reader)
}

/// The request of a line.
fn one(format: Format, line: &str) -> Logged {
    let (mut requests, reader) = read_all(line.as_bytes(), Some(format));
    assert_eq!(requests.len(), 1, "{line}: {:?}", reader.unreadable());
    requests.remove(0)
}

/// Why a line cannot be read.
fn why(format: Format, line: &str) -> Why {
    let (requests, reader) = read_all(line.as_bytes(), Some(format));
    assert_eq!(requests, [], "{line}");
    let [unreadable] = reader.unreadable().first() else {
        panic!("{line}: {:?}", reader.unreadable());
    };
    unreadable.why
}

/// Whether a line is read as something else than a request.
fn is_other(format: Format, line: &str) -> bool {
    let (requests, reader) = read_all(line.as_bytes(), Some(format));
    requests.is_empty() && reader.other() == 1 && reader.unreadable().count() == 0
}

/// The header fields of a request.
fn headers(logged: &Logged) -> HeaderMap {
    let mut headers = HeaderMap::new();
    logged.headers.copy_to(&mut headers);
    headers
}

/// The value of a header field, or nothing.
fn header(logged: &Logged, name: &str) -> String {
    let headers = headers(logged);
    let value = headers.get(name).map(|value| value.as_bytes());
    String::from_utf8(value.unwrap_or_default().to_owned()).unwrap()
}
