//! Header fields as `HeaderMap` prints them by `Debug`: `{"host": "example.com", "x": Sensitive}`.

use http::HeaderName;
use memchr::memchr2;

use super::{
    Why,
    headers::{Kept, PackedHeaders},
};

/// Adds the fields at the beginning of a text, and returns the rest.
///
/// A backslash at the end of a value seems to escape the quote after it, so a value can hide where
/// the next one begins: anything that is not a map is an error.
pub(super) fn add<'a>(
    headers: &mut PackedHeaders,
    text: &'a [u8],
    kept: &Kept,
) -> Result<&'a [u8], Why> {
    let mut rest = text.strip_prefix(b"{").ok_or(Why::Header)?;
    if let Some(rest) = rest.strip_prefix(b"}") {
        return Ok(rest);
    }
    loop {
        let (name, after) = quoted(rest).ok_or(Why::Header)?;
        let after = after.strip_prefix(b": ").ok_or(Why::Header)?;
        let after = match after.strip_prefix(b"Sensitive") {
            Some(after) => after,
            None => {
                let (value, after) = quoted(after).ok_or(Why::Header)?;
                let name = HeaderName::from_bytes(&name).map_err(|_| Why::Header)?;
                headers.add(&name, &value, kept)?;
                after
            }
        };
        if let Some(after) = after.strip_prefix(b"}") {
            return Ok(after);
        }
        rest = after.strip_prefix(b", ").ok_or(Why::Header)?;
    }
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
