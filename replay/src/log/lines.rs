//! Lines of a log, in constant memory whatever the log has.

use std::io::{self, BufRead, Read};

/// What some editors put before the first line.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads lines. None is held that is longer than the maximum.
pub(super) struct Lines<R> {
    input: R,
    max_line_bytes: usize,
    /// The line that was given out last.
    line: Vec<u8>,
    read_bytes: u64,
    number: u64,
}

/// A line without its end.
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The beginning of a line that is too long.
    TooLong(&'a [u8]),
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, max_line_bytes: usize) -> Self {
        Self {
            input,
            max_line_bytes,
            line: Vec::new(),
            read_bytes: 0,
            number: 0,
        }
    }

    /// The number of the line that was given out last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.line.capacity()
    }

    /// The next line, or `None` at the end.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        // So much of a line tells that it is too long: one byte that is too much, beside a byte
        // order mark and `\r`.
        let most = self
            .max_line_bytes
            .saturating_add(BYTE_ORDER_MARK.len() + 2);
        let mut begin = self.input.by_ref().take(most as u64);
        let read = begin.read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.read_bytes += read as u64;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read == most {
            self.read_bytes += self.input.skip_until(b'\n')? as u64;
        }
        let line = trimmed(&self.line, self.number);
        Ok(Some(Line::new(line, self.max_line_bytes)))
    }
}

impl<'a> Line<'a> {
    fn new(line: &'a [u8], max_line_bytes: usize) -> Self {
        if line.len() > max_line_bytes {
            Line::TooLong(line)
        } else {
            Line::Whole(line)
        }
    }
}

/// The line without `\r`, and the first one without a byte order mark.
fn trimmed(line: &[u8], number: u64) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if number == 1 {
        line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
    } else {
        line
    }
}
