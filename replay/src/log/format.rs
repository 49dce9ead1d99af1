//! Which form the lines of a log have.

use super::{Why, combined, headers::Kept, json, time::LastTime, trace};
use crate::logged::Logged;

/// The form of the lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// nginx's and Apache's `combined` or `common`.
    ///
    /// A host may stand before it (Apache's `vhost_combined`). Behind it may stand the
    /// `X-Forwarded-For` in quotes (nginx's `main`), and a duration: as the last field, without
    /// quotes, or as `rt=` or `request_time=` anywhere. It is in seconds if it has a decimal point
    /// (nginx's `$request_time`), in microseconds if not (Apache's `%D`), or in its own unit.
    Combined,
    /// One JSON object a line.
    Json,
    /// What `tower-http`'s `TraceLayer` prints when a response begins, by `tracing-subscriber`'s
    /// text formats `full` and `compact`, with colours or without.
    ///
    /// All other lines are counted apart.
    Trace,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 3] = [Format::Combined, Format::Json, Format::Trace];

    /// The form that most of these lines have, or `None` if none of them has one.
    #[must_use]
    pub fn detect(first_lines: &[&[u8]]) -> Option<Format> {
        let votes = |format: Format| {
            let votes = first_lines.iter().filter(|line| format.looks_like(line));
            (format, votes.count())
        };
        let (format, votes) = Self::ALL.map(votes).into_iter().max_by_key(|(_, n)| *n)?;
        (votes > 0).then_some(format)
    }

    /// What a line tells: a request, something else, or nothing that can be read.
    pub(super) fn read(
        self,
        line: &[u8],
        last_time: &mut LastTime,
        kept: &Kept,
    ) -> Result<Option<Box<Logged>>, Why> {
        match self {
            _ if line.trim_ascii().is_empty() => Ok(None),
            Format::Combined => combined::read(line, last_time, kept).map(Some),
            Format::Json => json::read(line, last_time, kept),
            Format::Trace => trace::read(line, kept),
        }
    }

    fn looks_like(self, line: &[u8]) -> bool {
        match self {
            Format::Combined => {
                combined::read(line, &mut LastTime::default(), &Kept::new(None)).is_ok()
            }
            Format::Json => line.trim_ascii_start().starts_with(b"{"),
            Format::Trace => trace::is_event(line),
        }
    }
}
