//! What `tower-http`'s `TraceLayer` prints by `tracing-subscriber`'s text formats:
//! `2024-01-01T00:00:00.000000Z DEBUG request{method=GET uri=/foo version=HTTP/1.1}:
//! tower_http::trace::on_response: finished processing request latency=0 ms status=200`.

use std::{borrow::Cow, sync::LazyLock};

use memchr::{memchr, memchr2_iter, memmem};

use super::{
    Why,
    combined::closing_quote,
    debug_headers,
    headers::{Kept, PackedHeaders},
    request, time,
};
use crate::logged::Logged;

/// The event at a response's head, which is one for each request.
pub(super) const FINISHED: &str = "finished processing request";

/// Made once: making it takes longer than a search.
static FINDER: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(FINISHED));

const LEVELS: [&[u8]; 5] = [b"TRACE", b"DEBUG", b"INFO", b"WARN", b"ERROR"];

/// `None` if the line is another event.
pub(super) fn read(line: &[u8], kept: &Kept) -> Result<Option<Box<Logged>>, Why> {
    let line = without_colours(line);
    let Some(event) = event(&line)? else {
        return Ok(None);
    };
    let span = &line[..line.len() - event.len()];
    let ended_micros = time::rfc3339(timestamp(&line).0)?;
    // The format `compact` prints the span behind the event.
    let field = |name| value(span, name).or_else(|| value(event, name));

    let method = request::method(word(field(b"method=").ok_or(Why::Method)?))?;
    let uri = request::target(&method, word(field(b"uri=").ok_or(Why::Target)?))?;
    let took_micros = value(event, b"latency=").map(latency).transpose()?;
    let status = value(event, b"status=").map(|text| status(word(text)));
    let mut headers = PackedHeaders::default();
    if let Some(text) = field(b"headers=") {
        debug_headers::add(&mut headers, text, kept)?;
    }
    let logged = Logged {
        started_micros: request::started(ended_micros, took_micros)?,
        took_micros,
        address: None,
        method,
        uri,
        headers,
        user: None,
        status: status.transpose()?.flatten(),
    };
    Ok(Some(Box::new(logged)))
}

/// Whether a line is an event of any kind.
pub(super) fn is_event(line: &[u8]) -> bool {
    let line = without_colours(line);
    let (timestamp, rest) = timestamp(&line);
    let level = word(rest.trim_ascii_start());
    LEVELS.contains(&level) && time::rfc3339(timestamp).is_ok()
}

/// The first word, and what stands behind it.
fn timestamp(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.trim_ascii_start();
    line.split_at(word(line).len())
}

/// What stands behind the name of a field.
fn value<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut fields = memchr2_iter(b' ', b'{', text).map(|at| &text[at + 1..]);
    fields.find_map(|field| field.strip_prefix(name))
}

/// The first word, without the end of its span.
fn word(text: &[u8]) -> &[u8] {
    let word = &text[..memchr(b' ', text).unwrap_or(text.len())];
    word.strip_suffix(b"}:").unwrap_or(word)
}

/// What stands behind the words of the event, if it is one at the end of a request.
///
/// A header field may have these words too, but is between quotes.
fn event(line: &[u8]) -> Result<Option<&[u8]>, Why> {
    let mut rest = line;
    while let Some(at) = FINDER.find(rest) {
        let Some(quote) = memchr(b'"', &rest[..at]) else {
            return Ok(Some(&rest[at + FINISHED.len()..]));
        };
        rest = if rest[..quote].ends_with(b" headers={") {
            debug_headers::add(
                &mut PackedHeaders::default(),
                &rest[quote - 1..],
                &Kept::new(Some(Vec::new())),
            )?
        } else {
            let text = &rest[quote + 1..];
            let end = closing_quote(text).ok_or(Why::OpenQuote)?;
            &text[end + 1..]
        };
    }
    Ok(None)
}

/// `12 ms`: the unit is a word of its own.
fn latency(text: &[u8]) -> Result<u64, Why> {
    let number = word(text);
    let mut length = number.len();
    if number
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        length += text
            .get(length + 1..)
            .map_or(0, |rest| 1 + word(rest).len());
    }
    let text = str::from_utf8(&text[..length]).map_err(|_| Why::Duration)?;
    time::duration_text(text, 1e6).unwrap_or(Err(Why::Duration))
}

fn status(text: &[u8]) -> Result<Option<u16>, Why> {
    let text = str::from_utf8(text).map_err(|_| Why::Status)?;
    request::status(text.parse().map_err(|_| Why::Status)?)
}

/// The line without `ESC [ … m`.
fn without_colours(line: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1B;
    if memchr(ESCAPE, line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr(ESCAPE, rest) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let colour = |byte: &u8| !(byte.is_ascii_digit() || matches!(byte, b'[' | b';'));
        let end = rest.iter().position(colour).unwrap_or(rest.len());
        if rest.get(end) == Some(&b'm') {
            rest = &rest[end + 1..];
        }
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}
