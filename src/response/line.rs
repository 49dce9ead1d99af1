//! The value of one field, written in place: a single allocation of the right size, at the end.

use http::HeaderValue;

/// A policy with the longest name fits; what is longer moves to the heap.
const IN_PLACE: usize = 128;

pub(super) struct Line {
    in_place: [u8; IN_PLACE],
    len: usize,
    moved: Vec<u8>,
}

impl Line {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            in_place: [0; IN_PLACE],
            len: 0,
            moved: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
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
    pub(super) fn name(&mut self, name: &str) {
        self.text(b"\"");
        self.write(name.as_bytes());
        self.text(b"\"");
    }

    #[inline]
    pub(super) fn number(&mut self, number: u64) {
        match number {
            0..10 => self.text(&[b'0' + number as u8]),
            10..100 => self.text(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]),
            _ => self.write(itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    /// A text whose length the compiler knows, so that it is a store and not a call.
    #[inline]
    pub(super) fn text<const N: usize>(&mut self, text: &[u8; N]) {
        match self
            .in_place
            .get_mut(self.len..)
            .and_then(<[u8]>::first_chunk_mut)
        {
            Some(room) if self.moved.is_empty() => {
                *room = *text;
                self.len += N;
            }
            _ => self.write_on_the_heap(text),
        }
    }

    /// The value. Nothing but ASCII is ever written, so that there always is one.
    #[inline]
    pub(super) fn into_value(self) -> HeaderValue {
        let written = if self.moved.is_empty() {
            &self.in_place[..self.len]
        } else {
            &self.moved
        };
        HeaderValue::from_bytes(written).unwrap_or(HeaderValue::from_static(""))
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        match self.in_place.get_mut(self.len..self.len + bytes.len()) {
            Some(room) if self.moved.is_empty() => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.write_on_the_heap(bytes),
        }
    }

    #[cold]
    fn write_on_the_heap(&mut self, bytes: &[u8]) {
        if self.moved.is_empty() {
            self.moved.extend_from_slice(&self.in_place[..self.len]);
        }
        self.moved.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_is_kept_whole() {
        for members in 1..100 {
            let mut line = Line::new();
            for _ in 0..members {
                line.separate();
                line.name("a-rather-long-name");
                line.text(b";q=");
                line.number(u64::MAX);
            }
            let member = "\"a-rather-long-name\";q=18446744073709551615";
            assert_eq!(line.into_value(), vec![member; members].join(", "));
        }
    }
}
