//! Header fields as `HeaderMap` prints them by `Debug`: `{"host": "example.com", "x": Sensitive}`.

use http::HeaderName;
use memchr::memchr2;

use super::{Why, headers::PackedHeaders};

/// Adds the fields that a text begins with.
pub(super) fn add(headers: &mut PackedHeaders, text: &[u8]) -> Result<(), Why> {
    let mut rest = text.strip_prefix(b"{").ok_or(Why::Header)?;
    while !rest.starts_with(b"}") {
        let (name, after) = quoted(rest).ok_or(Why::Header)?;
        let after = after.strip_prefix(b": ").ok_or(Why::Header)?;
        rest = match after.strip_prefix(b"Sensitive") {
            Some(rest) => rest,
            None => {
                let (value, rest) = quoted(after).ok_or(Why::Header)?;
                let name = HeaderName::from_bytes(&name).map_err(|_| Why::Header)?;
                headers.add(&name, &value)?;
                rest
            }
        };
        rest = rest.strip_prefix(b", ").unwrap_or(rest);
    }
    Ok(())
}

/// A quoted text, and what stands behind it.
///
/// `HeaderValue` escapes quotes and what is not ASCII, but no backslash.
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut plain = Vec::new();
    loop {
        let end = memchr2(b'"', b'\\', rest)?;
        plain.extend_from_slice(&rest[..end]);
        match &rest[end..] {
            [b'"', after @ ..] => return Some((plain, after)),
            [b'\\', b'"', after @ ..] => {
                plain.push(b'"');
                rest = after;
            }
            [b'\\', b'x', high, low, after @ ..] if is_high(*high, *low) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                plain.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                rest = after;
            }
            [_, after @ ..] => {
                plain.push(b'\\');
                rest = after;
            }
            [] => return None,
        }
    }
}

/// Whether two hexadecimal digits are a byte beyond ASCII: the only ones that are escaped.
fn is_high(high: u8, low: u8) -> bool {
    matches!(high, b'8'..=b'9' | b'a'..=b'f') && low.is_ascii_hexdigit()
}
