//! The part of a header that is read: its lines from the last one on, up to a number of bytes.

use super::node::Unreadable;

/// A line of a header, or the end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    /// Whether the line goes on to the left, unread.
    pub(super) is_cut: bool,
}

/// The last item of a text, and what is before it, if there is more.
pub(super) type SplitLast<'a> = (Option<&'a [u8]>, Result<&'a [u8], Unreadable>);

/// The lines from the last one on, until `max` bytes are read. Each line counts one byte more, for
/// the comma between two joined lines.
pub(super) fn last_bytes<'a>(
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    max: usize,
) -> impl Iterator<Item = Line<'a>> {
    let mut room = Some(max);
    lines.rev().map_while(move |text| {
        let max = room?;
        room = max.checked_sub(text.len() + 1);
        Some(Line {
            text: &text[text.len().saturating_sub(max)..],
            is_cut: room.is_none(),
        })
    })
}

impl<'a> Line<'a> {
    /// The items that `split_last` splits off, from the right; empty ones are left out.
    ///
    /// The item at the left edge of a cut line is unreadable, as it may be the end of a longer one.
    /// The other items are the same as in the whole line, if `split_last` does not look to the left
    /// of an item.
    pub(super) fn items(
        self,
        split_last: fn(&'a [u8]) -> SplitLast<'a>,
    ) -> impl Iterator<Item = Result<&'a [u8], Unreadable>> {
        let mut rest = Some(self.text);
        std::iter::from_fn(move || {
            let (before, item) = split_last(rest?);
            rest = before;
            Some(match before {
                None if self.is_cut => Err(Unreadable),
                _ => item.map(trim),
            })
        })
        .filter(|item| *item != Ok(b""))
    }
}

/// Without the spaces and tabs around it.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&'static str], max: usize) -> Vec<(&'static str, bool)> {
        let lines = last_bytes(lines.iter().map(|line| line.as_bytes()), max);
        lines
            .map(|line| (str::from_utf8(line.text).unwrap(), line.is_cut))
            .collect()
    }

    #[test]
    fn lines_come_from_the_last_one_on_and_the_one_that_does_not_fit_is_cut() {
        assert_eq!(read(&[], 8), []);
        assert_eq!(read(&["ab", "cd"], 8), [("cd", false), ("ab", false)]);
        assert_eq!(read(&["ab", "cd"], 6), [("cd", false), ("ab", false)]);
        assert_eq!(read(&["ab", "cd"], 5), [("cd", false), ("ab", true)]);
        assert_eq!(read(&["ab", "cd"], 4), [("cd", false), ("b", true)]);
        assert_eq!(read(&["ab", "cd"], 3), [("cd", false), ("", true)]);
        assert_eq!(read(&["ab", "cd"], 2), [("cd", true)]);
        assert_eq!(read(&["ab", "cd"], 1), [("d", true)]);
    }

    #[test]
    fn nothing_is_read_behind_a_line_that_is_cut_and_empty_lines_count() {
        assert_eq!(read(&["a", "b", "cd"], 2), [("cd", true)]);
        assert_eq!(
            read(&["", "", ""], 2),
            [("", false), ("", false), ("", true)]
        );
    }
}
