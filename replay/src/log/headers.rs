//! The header fields of requests that wait to be sorted.

use http::{HeaderMap, HeaderName, HeaderValue, header, header::Entry};

use super::{Why, request};

/// How many header fields a line may name; no server takes more.
const MAX_FIELDS: usize = 256;

/// nginx's `main` has it behind the agent.
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Names that take a byte.
static KNOWN: [HeaderName; 4] = [
    header::HOST,
    header::REFERER,
    header::USER_AGENT,
    X_FORWARDED_FOR,
];

/// Marks a name that is written out.
const OTHER: u8 = u8::MAX;

/// The names of the header fields that are kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// Those of `KNOWN`.
    known: [bool; KNOWN.len()],
    /// All names; or any, if this is none.
    names: Option<Vec<HeaderName>>,
}

/// Header fields in one piece of memory.
///
/// A `HeaderMap` for each of 65 536 held requests is more memory than the processor's caches have.
/// As it is made only when a request leaves, a line takes 200 ns less.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedHeaders {
    bytes: Vec<u8>,
    fields: usize,
}

impl Kept {
    /// Those of these names, or all of them.
    pub(super) fn new(names: Option<Vec<HeaderName>>) -> Self {
        let is_kept = |name| names.as_ref().is_none_or(|names| names.contains(name));
        Self {
            known: KNOWN.each_ref().map(is_kept),
            names,
        }
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }
}

impl PackedHeaders {
    /// Adds a field, if there is one; whether it is allowed does not depend on what is kept.
    pub(super) fn add(&mut self, name: &HeaderName, value: &[u8], kept: &Kept) -> Result<(), Why> {
        if request::is_missing(value) {
            return Ok(());
        }
        if self.fields == MAX_FIELDS || !is_allowed(value) {
            return Err(Why::Header);
        }
        self.fields += 1;
        match KNOWN.iter().position(|known| known == name) {
            Some(index) if kept.known[index] => self.push(index as u8, &[value]),
            None if kept.has(name) => self.push(OTHER, &[name.as_str().as_bytes(), value]),
            _ => {}
        }
        Ok(())
    }

    /// Copies all fields into a map, in the place of those that it has.
    pub fn copy_to(&self, headers: &mut HeaderMap) {
        headers.clear();
        let mut rest = &self.bytes[..];
        while let Some((name, value)) = pop_field(&mut rest) {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                add(headers, (name, value));
            }
        }
    }

    fn push(&mut self, name: u8, texts: &[&[u8]]) {
        let bytes = texts.iter().map(|text| size_of::<u32>() + text.len());
        self.bytes.reserve(1 + bytes.sum::<usize>());
        self.bytes.push(name);
        for text in texts {
            // No line has 4 GiB.
            let length = text.len() as u32;
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(text);
        }
    }
}

/// The fields of a map; those without a value are left out, as in a log.
impl From<&HeaderMap> for PackedHeaders {
    fn from(headers: &HeaderMap) -> Self {
        let (mut packed, kept) = (Self::default(), Kept::new(None));
        for (name, value) in headers {
            // More than a line may have are left out, too.
            let _ = packed.add(name, value.as_bytes(), &kept);
        }
        packed
    }
}

/// Whether a header field may have these bytes. All are looked at, many at once.
fn is_allowed(value: &[u8]) -> bool {
    let is_allowed = |byte: &u8| (*byte >= b' ' && *byte != 0x7F) || *byte == b'\t';
    value.iter().fold(true, |all, byte| all & is_allowed(byte))
}

/// Adds a field. A `Host` is there once at most.
fn add(headers: &mut HeaderMap, (name, value): (HeaderName, HeaderValue)) {
    let is_host = name == header::HOST;
    // There are far fewer fields than a map can have.
    match headers.try_entry(name) {
        Ok(Entry::Vacant(entry)) => {
            entry.insert(value);
        }
        Ok(Entry::Occupied(mut entry)) if !is_host => entry.append(value),
        _ => {}
    }
}

fn pop_field<'a>(rest: &mut &'a [u8]) -> Option<(HeaderName, &'a [u8])> {
    let (index, after) = rest.split_first()?;
    *rest = after;
    let name = match KNOWN.get(usize::from(*index)) {
        Some(name) => name.clone(),
        None => HeaderName::from_bytes(pop_text(rest)?).ok()?,
    };
    Some((name, pop_text(rest)?))
}

fn pop_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(text)
}
