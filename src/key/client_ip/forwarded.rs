//! `Forwarded`, RFC 7239: elements between commas, each of pairs between semicolons.

use std::net::IpAddr;

use super::{
    line::{LastItem, trim},
    node::{self, Unreadable},
};

/// The last element, and what is before its comma, if there is one.
///
/// Quotes, too, are matched from the right. In a valid line that makes no difference: going back,
/// the first quote without a backslash is the one that opens the string. In an invalid line, a
/// quote that a caller left open cannot swallow what the proxy wrote after it.
///
/// So an element never depends on anything to its left. If the line is cut, every element after a
/// comma is the same as in the whole line. A piece without a comma before it (the end of an
/// element, of a string in one, or a quote whose backslashes may have been cut off) is left out.
pub(super) fn split_last_element(line: &[u8]) -> LastItem<'_> {
    let mut end = line.len();
    while let Some(at) = end.checked_sub(1) {
        end = match line[at] {
            b',' => return (Some(&line[..at]), Ok(&line[at + 1..])),
            b'"' => match opening_quote(&line[..at]) {
                Some(opening) => opening,
                None => return (None, Err(Unreadable)),
            },
            _ => at,
        };
    }
    (None, Ok(line))
}

/// The index of the quote that opens a string; `before` is the line up to its closing quote.
fn opening_quote(mut before: &[u8]) -> Option<usize> {
    loop {
        let at = before.iter().rposition(|&byte| byte == b'"')?;
        before = &before[..at];
        let backslashes = before.iter().rev().take_while(|&&byte| byte == b'\\');
        let backslashes = backslashes.count();
        if backslashes % 2 == 0 {
            return Some(at);
        }
        before = &before[..at - backslashes];
    }
}

/// The address in the one `for` of an element.
pub(super) fn client_of(element: &[u8]) -> Result<IpAddr, Unreadable> {
    let mut client = None;
    let mut rest = Some(element);
    while let Some(pairs) = rest {
        let pairs = trim(pairs);
        // RFC 7239 lets the pairs between two semicolons be empty.
        if pairs.is_empty() || pairs[0] == b';' {
            rest = pairs.get(1..);
            continue;
        }
        let (name, value, after) = split_first_pair(pairs)?;
        if name.eq_ignore_ascii_case(b"for") && client.replace(value).is_some() {
            return Err(Unreadable);
        }
        rest = match trim(after) {
            [] => None,
            [b';', after @ ..] => Some(after),
            _ => return Err(Unreadable),
        };
    }
    // No address has an escape, so what is quoted is read as it is.
    node::rfc7239(client.ok_or(Unreadable)?)
}

/// The name of a pair, its value without quotes, and what follows.
type Pair<'a> = (&'a [u8], &'a [u8], &'a [u8]);

fn split_first_pair(pairs: &[u8]) -> Result<Pair<'_>, Unreadable> {
    let (name, rest) = split_token(pairs)?;
    match rest {
        [b'=', b'"', rest @ ..] => {
            let closing = closing_quote(rest).ok_or(Unreadable)?;
            Ok((name, &rest[..closing], &rest[closing + 1..]))
        }
        [b'=', rest @ ..] => {
            let (value, rest) = split_token(rest)?;
            Ok((name, value, rest))
        }
        _ => Err(Unreadable),
    }
}

fn split_token(text: &[u8]) -> Result<(&[u8], &[u8]), Unreadable> {
    let length = text.iter().take_while(|&&byte| is_token_char(byte)).count();
    match text.split_at(length) {
        ([], _) => Err(Unreadable),
        split => Ok(split),
    }
}

fn closing_quote(inside: &[u8]) -> Option<usize> {
    let mut escaped = false;
    inside.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// `tchar` of RFC 9110.
fn is_token_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::super::*;

    fn from_the_right(line: Line<'_>) -> impl Iterator<Item = Result<IpAddr, Unreadable>> {
        HeaderFormat::Forwarded.addresses(line)
    }

    fn read(line: &str) -> Vec<Option<String>> {
        from_the_right(Line {
            text: line.as_bytes(),
            is_cut: false,
        })
        .map(|client| client.ok().map(|ip| ip.to_string()))
        .collect()
    }

    fn all(ips: &[&str]) -> Vec<Option<String>> {
        ips.iter().map(|ip| Some((*ip).to_owned())).collect()
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        assert_eq!(read(r#"for="_gazonk""#), [None]);
        assert_eq!(
            read(r#"For="[2001:db8:cafe::17]:4711""#),
            all(&["2001:db8:cafe::17"])
        );
        assert_eq!(
            read("for=192.0.2.60;proto=http;by=203.0.113.43"),
            all(&["192.0.2.60"])
        );
        assert_eq!(
            read("for=192.0.2.43, for=198.51.100.17"),
            all(&["198.51.100.17", "192.0.2.43"])
        );
        assert_eq!(
            read(r#"for=192.0.2.43,for="[2001:db8:cafe::17]",for=unknown"#)[1..],
            all(&["2001:db8:cafe::17", "192.0.2.43"])
        );
        assert_eq!(read("for=_hidden, for=_SEVKISEK"), [None, None]);
    }

    #[test]
    fn names_have_no_case_and_other_pairs_do_not_matter() {
        assert_eq!(read("FOR=9.9.9.9;proto=wss"), all(&["9.9.9.9"]));
        assert_eq!(read("secret=x;;fOr=9.9.9.9;"), all(&["9.9.9.9"]));
        assert_eq!(read("proto=http; for=9.9.9.9 ;by=x"), all(&["9.9.9.9"]));
        assert_eq!(read(r#"by="";for=9.9.9.9"#), all(&["9.9.9.9"]));
    }

    #[test]
    fn commas_semicolons_and_quotes_inside_quotes_are_text() {
        assert_eq!(
            read(r#"for=1.1.1.1;host="a,b", for=9.9.9.9"#),
            all(&["9.9.9.9", "1.1.1.1"])
        );
        assert_eq!(
            read(r#"for=1.1.1.1;host="a;for=6.6.6.6,\",for=7.7.7.7,\\", for=9.9.9.9"#),
            all(&["9.9.9.9", "1.1.1.1"])
        );
        assert_eq!(read(r#"for="1\.2.3.\4""#), [None]);
    }

    #[test]
    fn a_quote_is_text_behind_an_odd_number_of_backslashes_and_ends_the_string_behind_an_even_one()
    {
        for text in [r#"\""#, r#"\\\""#, r#"\\\\\""#, r#"\"\""#] {
            let line = format!(r#"for=1.1.1.1;host="a{text},for=6.6.6.6", for=9.9.9.9"#);
            assert_eq!(read(&line), all(&["9.9.9.9", "1.1.1.1"]), "{line}");
        }
        for end in [r#"\\""#, r#"\\\\""#, r#"\"\\""#] {
            let line = format!(r#"for=1.1.1.1;host="a{end},for=7.7.7.7;host="b", for=9.9.9.9"#);
            assert_eq!(
                read(&line),
                all(&["9.9.9.9", "7.7.7.7", "1.1.1.1"]),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_cut_inside_of_a_string_is_never_read_as_an_element() {
        let line = br#"for=1.1.1.1;host="a,for=6.6.6.6,\\\",for=7.7.7.7", for=9.9.9.9"#;
        let told = |at| {
            from_the_right(Line {
                text: &line[at..],
                is_cut: true,
            })
            .collect::<Vec<_>>()
        };
        let last = Ok("9.9.9.9".parse().unwrap());
        let comma = line.len() - " for=9.9.9.9".len() - 1;
        for at in 0..=comma {
            assert_eq!(told(at), [last, Err(Unreadable)], "{at}");
        }
        for at in comma + 1..line.len() {
            assert_eq!(told(at), [Err(Unreadable)], "{at}");
        }
    }

    #[test]
    fn an_open_quote_swallows_nothing_to_its_right() {
        assert_eq!(
            read(r#"for=6.6.6.6;host=", for=9.9.9.9;host="a""#)[..1],
            all(&["9.9.9.9"])
        );
        assert_eq!(
            read(r#"for=6.6.6.6;host="\, for="9.9.9.9""#)[..1],
            all(&["9.9.9.9"])
        );
    }

    #[test]
    fn malformed_elements_name_nobody() {
        for line in [
            r#"for=1.2.3.4;host=""#,
            r#"for=""#,
            "for=[",
            r#"for="[::1""#,
            r#"="x""#,
            ";;;",
            ";",
            "for",
            "for=",
            "=",
            "for=;proto=http",
            "proto=http",
            "for=1.2.3.4;for=1.2.3.4",
            "for=1.2.3.4;FOR=5.6.7.8",
            "for =1.2.3.4",
            "for= 1.2.3.4",
            "for=1.2.3.4:80",
            "for=[2001:db8::1]",
            "for=2001:db8::1",
            r#"for="2001:db8::1""#,
            r#"for="1.2.3.4"x"#,
            r#"for="1.2.3.4""5.6.7.8""#,
            r#"for="1.2.3.4\"#,
            r#"for="1.2.3.4 ""#,
            "for=1.2.3.4 by=x",
            "for=1.2.3.4;b@d=x",
            r#"""#,
            r#"\""#,
        ] {
            assert_eq!(read(line).first(), Some(&None), "{line}");
        }
        let long = format!(r#"for="{}1.2.3.4""#, " ".repeat(100));
        assert_eq!(read(&long), [None]);
    }

    #[test]
    fn a_line_without_elements_says_nothing() {
        for line in ["", " ", ",", ", ,\t,"] {
            assert!(read(line).is_empty(), "{line:?}");
        }
    }
}
