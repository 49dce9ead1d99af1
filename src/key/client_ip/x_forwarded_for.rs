//! `X-Forwarded-For`: addresses separated by commas; it has no standard.

use std::net::IpAddr;

use super::{
    line::{Line, SplitLast},
    node::{self, Unreadable},
};

/// The addresses of one line, from the right; empty items are left out.
pub(super) fn from_the_right(line: Line<'_>) -> impl Iterator<Item = Result<IpAddr, Unreadable>> {
    line.items(split_last_item).map(|item| node::lenient(item?))
}

fn split_last_item(line: &[u8]) -> SplitLast<'_> {
    match line.iter().rposition(|&byte| byte == b',') {
        Some(comma) => (Some(&line[..comma]), Ok(&line[comma + 1..])),
        None => (None, Ok(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
