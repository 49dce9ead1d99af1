//! What is claimed of all forms of logs.

mod lines;
mod never_panics;
mod readings;
mod real_traces;
mod window;

use std::io::BufRead;

use http::HeaderMap;
use proptest::test_runner::Config;

use super::{Format, Options, Reader};
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

/// The header fields of a request.
fn headers(logged: &Logged) -> HeaderMap {
    let mut headers = HeaderMap::new();
    logged.headers.copy_to(&mut headers);
    headers
}
