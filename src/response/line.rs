//! The value of one field, written in place: a single allocation of the right size, at the end.

use http::HeaderValue;

/// Two policies with long names fit; more of them move to the heap.
const IN_PLACE: usize = 160;

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
            self.text(", ");
        }
    }

    /// A policy's name as a string. Its characters need no escape: see [`Policy::name`](crate::algorithm::Policy::name).
    #[inline]
    pub(super) fn name(&mut self, name: &str) {
        self.text("\"");
        self.text(name);
        self.text("\"");
    }

    #[inline]
    pub(super) fn number(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number));
    }

    #[inline]
    pub(super) fn text(&mut self, text: &str) {
        let end = self.len + text.len();
        match self.in_place.get_mut(self.len..end) {
            Some(room) => room.copy_from_slice(text.as_bytes()),
            None => self.text_on_the_heap(text),
        }
        self.len = end;
    }

    /// The value. Nothing but ASCII is ever written, so that there always is one.
    #[inline]
    pub(super) fn into_value(self) -> HeaderValue {
        let written = self.in_place.get(..self.len).unwrap_or(&self.moved);
        HeaderValue::from_bytes(written).unwrap_or(HeaderValue::from_static(""))
    }

    #[cold]
    fn text_on_the_heap(&mut self, text: &str) {
        if self.moved.is_empty() {
            self.moved.extend_from_slice(&self.in_place[..self.len]);
        }
        self.moved.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_is_kept_whole() {
        for members in [1, 5, 6, 7, 8, 9, 100] {
            let mut line = Line::new();
            for _ in 0..members {
                line.separate();
                line.name("a-rather-long-name");
                line.text(";q=");
                line.number(u64::MAX);
            }
            let member = "\"a-rather-long-name\";q=18446744073709551615";
            assert_eq!(line.into_value(), vec![member; members].join(", "));
        }
    }
}
