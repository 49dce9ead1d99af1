//! The lines that could not be read.

use std::fmt;

/// How many of the first unreadable lines are kept.
const KEPT_LINES: usize = 5;

/// How many bytes of such a line are kept.
const KEPT_BYTES: usize = 160;

/// Why a line could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// It is longer than [`Options::max_line_bytes`](super::Options::max_line_bytes).
    TooLong,
    /// It does not have the fields of the combined format, in their order.
    NotCombined,
    /// It is not one JSON object.
    NotJson,
    /// A quote is not closed: half a line.
    OpenQuote,
    /// It has no time, or one in no known form.
    Time,
    /// Its time, or its time without its duration, is before 1970 or after the year 2255.
    TimeOutOfRange,
    /// Its duration is negative, not a number, or longer than the time since 1970.
    Duration,
    /// It has no method, or none that HTTP allows.
    Method,
    /// It has no path, or none that HTTP allows.
    Target,
    /// Its status has more than three digits, or is not a number.
    Status,
    /// A header field has bytes that HTTP does not allow, or there are too many.
    Header,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::TooLong => "longer than the maximum length of a line",
            Why::NotCombined => "not the combined format",
            Why::NotJson => "not one JSON object",
            Why::OpenQuote => "a quote is not closed",
            Why::Time => "no time in a known format",
            Why::TimeOutOfRange => "a time before 1970 or after 2255",
            Why::Duration => "a duration that is out of range",
            Why::Method => "no method that HTTP allows",
            Why::Target => "no path that HTTP allows",
            Why::Status => "a status that is out of range",
            Why::Header => "a header field that HTTP does not allow",
        })
    }
}

/// How many lines could not be read, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreadable {
    count: u64,
    first: Vec<UnreadableLine>,
}

impl Unreadable {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first few of them.
    #[must_use]
    pub fn first(&self) -> &[UnreadableLine] {
        &self.first
    }

    pub(super) fn add(&mut self, number: u64, line: &[u8], why: Why) {
        self.count += 1;
        if self.first.len() < KEPT_LINES {
            let text = printable(line);
            self.first.push(UnreadableLine { number, text, why });
        }
    }
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableLine {
    /// Which line it is, from 1.
    pub number: u64,
    /// Its beginning; control characters are escaped, so that it can be printed to a terminal.
    pub text: String,
    /// What is wrong with it.
    pub why: Why,
}

/// The beginning of a line, with `…` where it is cut.
fn printable(line: &[u8]) -> String {
    let kept = &line[..line.len().min(KEPT_BYTES)];
    let mut text = String::new();
    for char in String::from_utf8_lossy(kept).chars() {
        if char.is_control() {
            text.extend(char.escape_default());
        } else {
            text.push(char);
        }
    }
    if kept.len() < line.len() {
        text.push('…');
    }
    text
}
