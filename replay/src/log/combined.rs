//! nginx's and Apache's `combined`:
//! `addr - user [10/Oct/2000:13:55:36 -0700] "GET /path HTTP/1.1" 200 2326 "referer" "agent"`.

use std::{borrow::Cow, net::IpAddr};

use http::header;
use memchr::{memchr, memchr2, memrchr};

use super::{
    Why,
    headers::{Kept, PackedHeaders, X_FORWARDED_FOR},
    request,
    time::{self, LastTime},
};
use crate::logged::Logged;

pub(super) fn read(line: &[u8], last_time: &mut LastTime, kept: &Kept) -> Result<Box<Logged>, Why> {
    // A user's name can have brackets, but each quote in it is escaped: the first one that is not
    // begins the request.
    let quote = closing_quote(line).ok_or(Why::NotCombined)?;
    let head = line[..quote].strip_suffix(b"] ").ok_or(Why::NotCombined)?;
    let bracket = memrchr(b'[', head).ok_or(Why::NotCombined)?;
    let mut headers = PackedHeaders::default();
    let (address, user) = client(&head[..bracket], (&mut headers, kept))?;
    let ended_micros = last_time.common(&head[bracket + 1..])?;

    let mut fields = Fields(&line[quote..]);
    let Some(Field::Quoted(request_line)) = fields.next()? else {
        return Err(Why::NotCombined);
    };
    let (method, uri) = request::request_line(&request_line.plain())?;
    let (Some(Field::Bare(status)), Some(Field::Bare(_bytes))) = (fields.next()?, fields.next()?)
    else {
        return Err(Why::NotCombined);
    };
    let status = self::status(status)?;
    let took_micros = rest(fields, (&mut headers, kept))?;
    Ok(Box::new(Logged {
        started_micros: request::started(ended_micros, took_micros)?,
        took_micros,
        address,
        method,
        uri,
        headers,
        user,
        status,
    }))
}

/// What stands before the time: an address, an ident and a user, and maybe a host before them.
fn client(
    head: &[u8],
    (headers, kept): (&mut PackedHeaders, &Kept),
) -> Result<(Option<IpAddr>, Option<String>), Why> {
    let (first, rest) = token(head).ok_or(Why::NotCombined)?;
    let (second, after_second) = token(rest).ok_or(Why::NotCombined)?;
    // The ident, which nobody has.
    if second == b"-" {
        return Ok((request::address(first), user(after_second)));
    }
    let (third, after_third) = token(after_second).unwrap_or((b"", b""));
    let address = request::address(second);
    // A host's name may be in the place of the address.
    if address.is_none() && (third != b"-" || request::address(first).is_some()) {
        return Ok((request::address(first), user(after_second)));
    }
    let port = [&b":80"[..], b":443"];
    let host = port.iter().find_map(|port| first.strip_suffix(*port));
    headers.add(&header::HOST, host.unwrap_or(first), kept)?;
    Ok((address, user(after_third)))
}

fn user(text: &[u8]) -> Option<String> {
    let text = text.trim_ascii_end();
    let user = || String::from_utf8_lossy(&unescaped(text)).into_owned();
    (!request::is_missing(text)).then(user)
}

fn status(text: &[u8]) -> Result<Option<u16>, Why> {
    if text == b"-" {
        return Ok(None);
    }
    request::status(whole_number(text).ok_or(Why::Status)?)
}

/// A number of digits alone.
fn whole_number(text: &[u8]) -> Option<u64> {
    let add = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    (!text.is_empty()).then(|| text.iter().try_fold(0, add))?
}

/// What stands behind the size: header fields in quotes, and other fields, of which one may be the
/// duration.
fn rest(
    mut fields: Fields<'_>,
    (headers, kept): (&mut PackedHeaders, &Kept),
) -> Result<Option<u64>, Why> {
    let mut names = [header::REFERER, header::USER_AGENT, X_FORWARDED_FOR].into_iter();
    let mut took_micros = None;
    let mut last = None;
    while let Some(field) = fields.next()? {
        last = Some(field);
        match field {
            Field::Quoted(value) => {
                if let Some(name) = names.next() {
                    headers.add(&name, &value.plain(), kept)?;
                }
            }
            Field::Bare(field) => {
                // What is quoted behind it has no known meaning.
                names.by_ref().for_each(drop);
                let named = [&b"rt="[..], b"request_time="];
                let value = named.iter().find_map(|name| field.strip_prefix(*name));
                if let Some(value) = value.filter(|_| took_micros.is_none()) {
                    took_micros = duration(value)?;
                }
            }
        }
    }
    match last {
        Some(Field::Bare(field)) if took_micros.is_none() => duration(field),
        _ => Ok(took_micros),
    }
}

/// A duration in seconds, if it has a decimal point; in microseconds, if it has none.
fn duration(text: &[u8]) -> Result<Option<u64>, Why> {
    let Ok(text) = str::from_utf8(text) else {
        return Ok(None);
    };
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
    let micros_each = if is_whole { 1.0 } else { 1e6 };
    time::duration_text(text, micros_each).transpose()
}

/// The text before the next space, and what stands behind it.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr(b' ', text)?;
    Some((&text[..space], &text[space + 1..]))
}

/// The fields of the rest of a line.
struct Fields<'a>(&'a [u8]);

#[derive(Clone, Copy)]
enum Field<'a> {
    Quoted(Quoted<'a>),
    Bare(&'a [u8]),
}

/// What is between quotes, still escaped.
#[derive(Clone, Copy)]
struct Quoted<'a> {
    text: &'a [u8],
    has_escapes: bool,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, Why> {
        self.0 = self.0.trim_ascii_start();
        if self.0.is_empty() {
            return Ok(None);
        }
        if let Some(text) = self.0.strip_prefix(b"\"") {
            let (quoted, rest) = Quoted::begins(text).ok_or(Why::OpenQuote)?;
            self.0 = rest;
            return Ok(Some(Field::Quoted(quoted)));
        }
        let mut end = 0;
        // A quote within a field may have spaces: `uct="0.001, 0.002"`. Such fields are short, so
        // each byte is looked at by itself.
        while let Some(found) = self.0[end..]
            .iter()
            .position(|byte| matches!(byte, b' ' | b'"'))
        {
            end += found;
            if self.0[end] == b' ' {
                return Ok(Some(self.bare(end)));
            }
            end += 1;
            end += closing_quote(&self.0[end..]).ok_or(Why::OpenQuote)? + 1;
        }
        Ok(Some(self.bare(self.0.len())))
    }

    fn bare(&mut self, end: usize) -> Field<'a> {
        let (field, rest) = self.0.split_at(end);
        self.0 = rest;
        Field::Bare(field)
    }
}

impl<'a> Quoted<'a> {
    /// What a text begins with, up to the quote that closes it, and what stands behind that.
    fn begins(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let first = memchr2(b'"', b'\\', text)?;
        let has_escapes = text[first] == b'\\';
        let end = if has_escapes {
            closing_quote(text)?
        } else {
            first
        };
        let quoted = Self {
            text: &text[..end],
            has_escapes,
        };
        Some((quoted, &text[end + 1..]))
    }

    fn plain(self) -> Cow<'a, [u8]> {
        match self.has_escapes {
            true => unescaped(self.text),
            false => Cow::Borrowed(self.text),
        }
    }
}

/// Where the first quote is that has no backslash before it.
pub(super) fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The text that nginx or Apache escaped.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'\\', text) else {
        return Cow::Borrowed(text);
    };
    let mut plain = text[..first].to_vec();
    let mut rest = &text[first..];
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let (escaped, length) = match after {
            [b'x', high, low, ..] => (hex(*high, *low), 3),
            [b'n', ..] => (Some(b'\n'), 1),
            [b't', ..] => (Some(b'\t'), 1),
            [b'r', ..] => (Some(b'\r'), 1),
            [b'b', ..] => (Some(0x08), 1),
            [b'v', ..] => (Some(0x0B), 1),
            [b'f', ..] => (Some(0x0C), 1),
            [byte @ (b'"' | b'\\'), ..] => (Some(*byte), 1),
            _ => (None, 0),
        };
        match escaped {
            Some(escaped) => {
                plain.push(escaped);
                rest = &after[length..];
            }
            // What is no escape is a backslash.
            None => plain.push(b'\\'),
        }
    }
    Cow::Owned(plain)
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
