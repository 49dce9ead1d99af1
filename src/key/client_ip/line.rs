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
pub(super) type LastItem<'a> = (Option<&'a [u8]>, Result<&'a [u8], Unreadable>);

pub(super) type SplitLast = fn(&[u8]) -> LastItem<'_>;

/// As in `X-Forwarded-For`: addresses separated by commas; it has no standard.
pub(super) fn split_at_last_comma(line: &[u8]) -> LastItem<'_> {
    match line.iter().rposition(|&byte| byte == b',') {
        Some(comma) => (Some(&line[..comma]), Ok(&line[comma + 1..])),
        None => (None, Ok(line)),
    }
}

/// A line that is one item.
pub(super) fn do_not_split(line: &[u8]) -> LastItem<'_> {
    (None, Ok(line))
}

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
        split_last: SplitLast,
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
    use super::{super::*, *};

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

    fn from_the_right(line: Line<'_>) -> impl Iterator<Item = Result<IpAddr, Unreadable>> {
        HeaderFormat::XForwardedFor.addresses(line)
    }

    fn ip(text: &str) -> Result<IpAddr, Unreadable> {
        Ok(text.parse().unwrap())
    }

    #[test]
    fn items_come_from_the_right_and_empty_ones_do_not() {
        let line = Line {
            text: b",1.1.1.1, ,\t2.2.2.2 ,x,,",
            is_cut: false,
        };
        let items: Vec<_> = from_the_right(line).collect();
        assert_eq!(items, [Err(Unreadable), ip("2.2.2.2"), ip("1.1.1.1")]);
    }

    #[test]
    fn a_line_without_items_says_nothing() {
        for line in [&b""[..], b" ", b",", ", ,\t,".as_bytes()] {
            assert_eq!(
                from_the_right(Line {
                    text: line,
                    is_cut: false
                })
                .count(),
                0,
                "{line:?}"
            );
        }
    }

    #[test]
    fn an_item_that_may_have_been_cut_is_left_out_and_one_after_a_comma_is_kept() {
        let line = b"11.1.1.1,22.2.2.2";
        let told = |at| {
            from_the_right(Line {
                text: &line[at..],
                is_cut: true,
            })
            .collect::<Vec<_>>()
        };
        for at in 0..=8 {
            assert_eq!(told(at), [ip("22.2.2.2"), Err(Unreadable)], "{at}");
        }
        for at in 9..line.len() {
            assert_eq!(told(at), [Err(Unreadable)], "{at}");
        }
    }
}
