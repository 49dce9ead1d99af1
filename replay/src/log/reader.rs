//! From lines to requests in the order of their start.

use std::{
    io::{self, BufRead, Chain, Cursor, ErrorKind, Read},
    time::Duration,
};

use http::HeaderName;

use super::{
    Format, Unreadable, Why,
    headers::Kept,
    lines::{BYTE_ORDER_MARK, Line, Lines},
    time::LastTime,
    window::Window,
};
use crate::logged::Logged;

/// How much of a log is read to detect its format.
const DETECT_BYTES: u64 = 256 * 1024;

/// How many lines of it.
const DETECT_LINES: usize = 200;

/// How much of a log tells that it is compressed.
const COMPRESSED_BYTES: u64 = 6;

/// What bounds the reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How much longer than another a request may have run and still be sorted before it.
    pub window: Duration,
    /// How many requests are held at most to be sorted.
    pub max_held: usize,
    /// How many bytes the lines of the held requests may have together.
    pub max_held_bytes: usize,
    /// How long a line may be.
    pub max_line_bytes: usize,
    /// The names of the header fields that are wanted; `None` wants all. Without those that nobody
    /// asks for a line takes a quarter fewer instructions (bench `instructions_of_a_line`).
    pub header_names: Option<Vec<HeaderName>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            max_held: 65_536,
            max_held_bytes: 64 * 1024 * 1024,
            max_line_bytes: 64 * 1024,
            header_names: None,
        }
    }
}

/// Reads the requests of a log, in ascending order of their start.
///
/// A request that comes too late to be sorted has the start of the one before it, and is counted.
pub struct Reader<R> {
    lines: Lines<Chain<Cursor<Vec<u8>>, R>>,
    format: Format,
    last_time: LastTime,
    kept: Kept,
    window: Window,
    unreadable: Unreadable,
    other: u64,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads a log in a form, or in the one that its first lines have.
    ///
    /// # Errors
    ///
    /// What reading the first lines gave; and `InvalidData` if they have no form that is known, or
    /// are compressed.
    pub fn new(mut input: R, format: Option<Format>, options: Options) -> io::Result<Self> {
        let looked_at = match format {
            Some(_) => COMPRESSED_BYTES,
            None => DETECT_BYTES,
        };
        let mut begin = Vec::new();
        input.by_ref().take(looked_at).read_to_end(&mut begin)?;
        is_not_compressed(&begin)?;
        let format = match format {
            Some(format) => format,
            None => detect(&begin)?,
        };
        let window_micros = u64::try_from(options.window.as_micros()).unwrap_or(u64::MAX);
        let input = Cursor::new(begin).chain(input);
        Ok(Self {
            lines: Lines::new(input, options.max_line_bytes),
            format,
            last_time: LastTime::default(),
            kept: Kept::new(options.header_names),
            window: Window::new(window_micros, options.max_held, options.max_held_bytes),
            unreadable: Unreadable::default(),
            other: 0,
            ended: false,
        })
    }

    /// The form that the lines have.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many bytes of the log are read, for a progress bar.
    pub fn read_bytes(&self) -> u64 {
        self.lines.read_bytes()
    }

    /// How many lines are read.
    pub fn read_lines(&self) -> u64 {
        self.lines.number()
    }

    /// The lines that could not be read.
    pub fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    /// How many lines are not about a request: empty ones, and other events.
    pub fn other(&self) -> u64 {
        self.other
    }

    /// How many requests came too late to be sorted.
    pub fn out_of_order(&self) -> u64 {
        self.window.out_of_order()
    }

    /// How many requests were dated further ahead of the lines around them than the window: they
    /// get the time of those lines.
    pub fn ahead(&self) -> u64 {
        self.window.ahead()
    }

    /// How many bytes are kept for a line that is not whole in the input's buffer.
    #[cfg(test)]
    pub(super) fn held_for_a_line(&self) -> usize {
        self.lines.held_bytes()
    }

    /// Reads a line; `false` at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        let number = self.lines.number() + 1;
        let (line, read) = match self.lines.next_line()? {
            None => return Ok(false),
            Some(Line::TooLong(line)) => (line, Err(Why::TooLong)),
            Some(Line::Whole(line)) => (
                line,
                self.format.read(line, &mut self.last_time, &self.kept),
            ),
        };
        match read {
            Ok(Some(request)) => self.window.push(request, line.len()),
            Ok(None) => self.other += 1,
            Err(why) => self.unreadable.add(number, line, why),
        }
        Ok(true)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = io::Result<Box<Logged>>;

    /// The next request. An error of the input ends the reading; the requests that are held are
    /// given out after it.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            if let Some(logged) = self.window.pop_due() {
                return Some(Ok(logged));
            }
            match self.read_line() {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.window.pop_last().map(Ok)
    }
}

/// Detects compressed bytes, which have no lines in any format.
pub(super) fn is_not_compressed(begin: &[u8]) -> io::Result<()> {
    let begins: [(&[u8], &str); 4] = [
        (b"\x1F\x8B", "zcat"),
        (b"\x28\xB5\x2F\xFD", "zstdcat"),
        (b"BZh", "bzcat"),
        (b"\xFD7zXZ\0", "xzcat"),
    ];
    match begins.iter().find(|(bytes, _)| begin.starts_with(bytes)) {
        None => Ok(()),
        Some((_, reader)) => {
            let message =
                format!("the log is compressed: `{reader} LOG | tollgate-replay RULES -`");
            Err(io::Error::new(ErrorKind::InvalidData, message))
        }
    }
}

fn detect(begin: &[u8]) -> io::Result<Format> {
    let is_cut = begin.len() as u64 == DETECT_BYTES;
    let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(begin);
    let mut lines: Vec<_> = begin.split(|byte| *byte == b'\n').collect();
    if is_cut && lines.len() > 1 {
        // The last one may go on.
        lines.pop();
    }
    lines.truncate(DETECT_LINES);
    if let Some(format) = Format::detect(&lines) {
        return Ok(format);
    }
    let message = if begin.trim_ascii().is_empty() {
        // There is nothing to read in any form.
        return Ok(Format::Combined);
    } else {
        "the first lines are neither the combined format, nor JSON, nor what tower-http's \
         TraceLayer prints; if later ones are, --format says which"
    };
    Err(io::Error::new(ErrorKind::InvalidData, message))
}
