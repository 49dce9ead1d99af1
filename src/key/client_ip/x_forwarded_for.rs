//! `X-Forwarded-For`: addresses between commas, no standard.

use std::net::IpAddr;

use super::node::{self, Unreadable};

/// What the items of one line say, from the right; empty ones are left out.
pub(super) fn from_the_right(line: &[u8]) -> impl Iterator<Item = Result<IpAddr, Unreadable>> {
    line.rsplit(|&byte| byte == b',')
        .map(trim)
        .filter(|item| !item.is_empty())
        .map(node::lenient)
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

    #[test]
    fn items_come_from_the_right_and_empty_ones_do_not() {
        let items: Vec<_> = from_the_right(b",1.1.1.1, ,\t2.2.2.2 ,x,,").collect();
        let ip = |text: &str| Ok(text.parse().unwrap());
        assert_eq!(items, [Err(Unreadable), ip("2.2.2.2"), ip("1.1.1.1")]);
    }

    #[test]
    fn a_line_without_items_says_nothing() {
        for line in [&b""[..], b" ", b",", ", ,\t,".as_bytes()] {
            assert_eq!(from_the_right(line).count(), 0, "{line:?}");
        }
    }
}
