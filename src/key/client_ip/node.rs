//! One address as proxies write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An item that is not an address: `unknown`, a made-up identifier, a zone, a syntax error, the end
/// of a line that is too long. Nothing to its left counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The address in one item of `X-Forwarded-For` or in a header with a single address:
/// `v4`, `v4:port`, `v6`, `[v6]` or `[v6]:port`.
pub(super) fn lenient(text: &[u8]) -> Result<IpAddr, Unreadable> {
    let text = str::from_utf8(text).map_err(|_| Unreadable)?;
    // One colon precedes a port; only an IPv6 address has more, and a bracket ends it.
    let colons = text.bytes().filter(|&byte| byte == b':').count();
    if colons > 1 && !text.starts_with('[') {
        let v6 = text.parse::<Ipv6Addr>();
        return v6.map(IpAddr::V6).map_err(|_| Unreadable);
    }
    with_port(text, is_port)
}

/// The address in the `node` of RFC 7239: `v4`, `v4:port`, `[v6]` or `[v6]:port`, where the port
/// may be an obfuscated identifier.
pub(super) fn rfc7239(text: &[u8]) -> Result<IpAddr, Unreadable> {
    let text = str::from_utf8(text).map_err(|_| Unreadable)?;
    with_port(text, |port| is_port(port) || is_obfuscated_port(port))
}

fn with_port(text: &str, is_port: impl Fn(&str) -> bool) -> Result<IpAddr, Unreadable> {
    let (address, rest) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (v6, rest) = bracketed.split_once(']').ok_or(Unreadable)?;
            (v6.parse::<Ipv6Addr>().map(IpAddr::V6), rest)
        }
        None => {
            let (v4, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (v4.parse::<Ipv4Addr>().map(IpAddr::V4), rest)
        }
    };
    let port_is_fine = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    match address {
        Ok(address) if port_is_fine => Ok(address),
        _ => Err(Unreadable),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_obfuscated_port(text: &str) -> bool {
    text.strip_prefix('_').is_some_and(|name| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Result<IpAddr, Unreadable> {
        Ok(text.parse().unwrap())
    }

    #[test]
    fn an_address_may_have_a_port_and_brackets() {
        for (text, address) in [
            ("1.2.3.4", "1.2.3.4"),
            ("1.2.3.4:0", "1.2.3.4"),
            ("1.2.3.4:65535", "1.2.3.4"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("[::ffff:1.2.3.4]:443", "::ffff:1.2.3.4"),
        ] {
            assert_eq!(lenient(text.as_bytes()), ip(address), "{text}");
            assert_eq!(rfc7239(text.as_bytes()), ip(address), "{text}");
        }
    }

    #[test]
    fn only_the_lenient_form_has_ipv6_without_brackets_and_only_rfc_7239_made_up_ports() {
        assert_eq!(lenient(b"2001:DB8::1"), ip("2001:db8::1"));
        assert_eq!(rfc7239(b"2001:db8::1"), Err(Unreadable));
        assert_eq!(rfc7239(b"1.2.3.4:_a.B-9"), ip("1.2.3.4"));
        assert_eq!(rfc7239(b"[::1]:_p"), ip("::1"));
        assert_eq!(lenient(b"1.2.3.4:_p"), Err(Unreadable));
    }

    #[test]
    fn everything_else_names_no_address() {
        for text in [
            &b""[..],
            b"garbage",
            b"unknown",
            b"_hidden",
            b"fe80::1%eth0",
            b"[fe80::1%25eth0]",
            b"1.2.3",
            b"1.2.3.4.5",
            b"01.2.3.4",
            b"256.1.1.1",
            b"0x1.2.3.4",
            b" 1.2.3.4",
            b"1.2.3.4:",
            b"1.2.3.4:+80",
            b"1.2.3.4:65536",
            b"1.2.3.4:80:80",
            b"1.2.3.4:_",
            b"1.2.3.4:_a/b",
            b"[1.2.3.4]",
            b"[::1",
            b"::1]",
            b"[]",
            b"[",
            b"]",
            b"[::1]443",
            b"[::1]:",
            b"[[::1]]",
            b"[::1]:443]",
            b"1.2.3.4\xff",
            b"\xff\xfe",
            "１.２.３.４".as_bytes(),
        ] {
            assert_eq!(lenient(text), Err(Unreadable), "{text:?}");
            assert_eq!(rfc7239(text), Err(Unreadable), "{text:?}");
        }
    }
}
