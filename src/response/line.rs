//! The value of one field, written into memory of exactly its size: a single allocation, and no
//! copy.

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

/// A number alone as a value: without an allocation, if it has two digits at most.
pub(super) fn number_value(number: u64) -> HeaderValue {
    let digits = match usize::try_from(number) {
        Ok(number @ 0..10) => 2 * number + 1..2 * number + 2,
        Ok(number @ 10..100) => 2 * number..2 * number + 2,
        _ => {
            let mut line = Line::of_len(number_len(number));
            line.number(number);
            return line.into_value();
        }
    };
    HeaderValue::from_static(&TWO_DIGITS[digits])
}

/// `00` to `99`.
static TWO_DIGITS: &str = "\
    0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
    5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

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

    /// A policy's name as a string. Its characters need no escape: see
    /// [`Policy::name`](crate::algorithm::Policy::name).
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

    #[cfg(test)]
    pub(super) fn is_as_long_as_was_said(&self) -> bool {
        self.0.len() == self.0.capacity()
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
    fn a_number_alone_is_its_digits() {
        for number in (0..1_100).chain([u64::MAX]) {
            assert_eq!(number_value(number), number.to_string());
        }
    }

    #[test]
    fn a_number_of_two_digits_at_most_takes_no_memory() {
        for number in 0..100 {
            let [one, other] = [number_value(number), number_value(number)];
            assert_eq!(
                one.as_bytes().as_ptr(),
                other.as_bytes().as_ptr(),
                "{number}"
            );
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
