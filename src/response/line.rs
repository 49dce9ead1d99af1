//! The value of one field, written into memory of exactly its size: a single allocation, and no copy.

use bytes::Bytes;
use http::HeaderValue;

/// How many bytes a string of a structured field takes.
#[inline]
pub(super) fn string_len(text: &str) -> usize {
    text.len() + 2
}

/// How many digits a number has.
#[inline]
pub(super) fn number_len(number: u64) -> usize {
    match number {
        0..10 => 1,
        10..100 => 2,
        _ => number.ilog10() as usize + 1,
    }
}

/// A value that is being written. If it is not as long as was said, it is still right, but slower.
pub(super) struct Line(Vec<u8>);

impl Line {
    #[inline]
    pub(super) fn of_len(len: usize) -> Self {
        Self(Vec::with_capacity(len))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What stands between two members of a list.
    #[inline]
    pub(super) fn separate(&mut self) {
        if !self.is_empty() {
            self.text(b", ");
        }
    }

    /// A policy's name as a string. Its characters need no escape: see [`Policy::name`](crate::algorithm::Policy::name).
    #[inline]
    pub(super) fn string(&mut self, name: &str) {
        self.text(b"\"");
        self.0.extend_from_slice(name.as_bytes());
        self.text(b"\"");
    }

    #[inline]
    pub(super) fn number(&mut self, number: u64) {
        match number {
            0..10 => self.text(&[b'0' + number as u8]),
            10..100 => self.text(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]),
            _ => {
                let mut digits = itoa::Buffer::new();
                self.0.extend_from_slice(digits.format(number).as_bytes());
            }
        }
    }

    /// A text whose length the compiler knows, so that it is a store and not a call.
    #[inline]
    pub(super) fn text<const N: usize>(&mut self, text: &[u8; N]) {
        self.0.extend_from_slice(text);
    }

    /// The value. Nothing but ASCII is ever written, so that there always is one.
    #[inline]
    pub(super) fn into_value(self) -> HeaderValue {
        let value = HeaderValue::from_maybe_shared(Bytes::from(self.0));
        value.unwrap_or(HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_length_that_was_said_is_kept_where_it_was_written() {
        for number in [0, 9, 10, 99, 100, 999, 1_000, u64::MAX] {
            let len = string_len("api") + ";q=".len() + number_len(number);
            let mut line = Line::of_len(len);
            line.string("api");
            line.text(b";q=");
            line.number(number);
            assert_eq!((line.0.len(), line.0.capacity()), (len, len));
            assert_eq!(line.into_value(), format!("\"api\";q={number}"));
        }
    }

    #[test]
    fn a_line_of_any_other_length_is_kept_whole() {
        for said in [0, 1, 100] {
            let mut line = Line::of_len(said);
            line.separate();
            line.string("a");
            line.separate();
            line.string("b");
            assert_eq!(line.into_value(), r#""a", "b""#);
        }
    }
}
