//! What the pictures show: each algorithm with ten units a second, under the same traffic.

use serde_json::Value;
use tollgate_algorithms::Row;

use crate::{
    algorithms::{Entry, rows},
    field::Field,
    limit::Limit,
    simulate::Request,
    span::SECOND,
};

/// How long the pictures last.
pub(super) const LASTS: u64 = 5 * SECOND;

/// The traffic, in words.
pub(super) const IN_WORDS: &str = "10 requests at 0.9 s and 10 at 1.1 s, one every 200 ms from 2 s to \
                               3 s, and 25 evenly from 3 s to 4 s";

/// A limit, how it is called, and the name of its own picture if it has one.
pub(super) struct Shown {
    pub(super) limit: Limit,
    pub(super) called: &'static str,
    pub(super) picture: Option<&'static str>,
}

/// The numbers that all have.
fn value(field: &Field) -> Option<Value> {
    match field.name {
        "quota" => Some("10/s".into()),
        "interval" => Some("100ms".into()),
        "requests" => Some(4.into()),
        _ => field.default_value(),
    }
}

/// Every algorithm.
pub(super) fn limits() -> Vec<Shown> {
    let shown = |(entry, row): (&Entry, &Row)| Shown {
        limit: entry.limit(row, value).expect("a limit"),
        called: row.called,
        picture: row.picture,
    };
    rows().map(shown).collect()
}

/// The traffic that all of them are asked.
pub(super) fn requests() -> Vec<Request> {
    let mut instants = vec![900_000; 10];
    instants.extend([1_100_000; 10]);
    instants.extend((0..5).map(|index| 2 * SECOND + index * 200_000));
    instants.extend((0..25).map(|index| 3 * SECOND + index * 40_000));
    let requests = instants.into_iter().map(|at| Request {
        runs_micros: 300_000,
        ..Request::at(at)
    });
    requests.collect()
}
