//! Lines of a log, in constant memory whatever the log has.

use std::io::{self, BufRead, ErrorKind};

use memchr::memchr;

/// What some editors put before the first line.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads lines. None is held that is longer than the maximum.
pub(super) struct Lines<R> {
    input: R,
    max_line_bytes: usize,
    /// A line that is not whole in the input's buffer.
    gathered: Vec<u8>,
    /// What of the input's buffer the line is that was given out last.
    unconsumed: usize,
    consumed: u64,
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
            gathered: Vec::new(),
            unconsumed: 0,
            consumed: 0,
            number: 0,
        }
    }

    /// The number of the line that was given out last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.consumed + self.unconsumed as u64
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.gathered.capacity()
    }

    /// The next line, or `None` at the end.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.consume(self.unconsumed);
        self.unconsumed = 0;
        // Most lines are whole in the buffer, and are not copied.
        let buffer = fill(&mut self.input)?;
        if buffer.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if let Some(end) = memchr(b'\n', buffer) {
            self.unconsumed = end + 1;
            let line = trimmed(&fill(&mut self.input)?[..end], self.number);
            return Ok(Some(Line::new(line, self.max_line_bytes)));
        }
        self.gather()?;
        let line = trimmed(&self.gathered, self.number);
        Ok(Some(Line::new(line, self.max_line_bytes)))
    }

    /// Copies a line that the buffer has not whole: as much of it as tells that it is too long.
    fn gather(&mut self) -> io::Result<()> {
        self.gathered.clear();
        loop {
            let buffer = fill(&mut self.input)?;
            if buffer.is_empty() {
                return Ok(());
            }
            let newline = memchr(b'\n', buffer);
            let part = &buffer[..newline.unwrap_or(buffer.len())];
            // One byte of `\r`, and one that is too much.
            let room = self.max_line_bytes.saturating_add(2) - self.gathered.len();
            self.gathered
                .extend_from_slice(&part[..part.len().min(room)]);
            let read = part.len() + usize::from(newline.is_some());
            self.consume(read);
            if newline.is_some() {
                return Ok(());
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.input.consume(bytes);
        self.consumed += bytes as u64;
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

fn fill(input: &mut impl BufRead) -> io::Result<&[u8]> {
    // The loop ends before anything borrowed is returned, as the borrow checker asks.
    while let Err(error) = input.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    input.fill_buf()
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
