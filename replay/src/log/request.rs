//! The parts of a request, from the texts of a log.

use std::net::{IpAddr, SocketAddr};

use http::{Method, Uri};
use memchr::{memchr, memrchr};

use super::Why;

/// A method and a target from a request line: `GET /path HTTP/1.1`.
pub(super) fn request_line(line: &[u8]) -> Result<(Method, Uri), Why> {
    let space = memchr(b' ', line).ok_or(Why::Method)?;
    let method = method(&line[..space])?;
    let rest = &line[space + 1..];
    // A request of HTTP/0.9 has no version.
    let end = match memrchr(b' ', rest) {
        Some(space) if rest[space + 1..].starts_with(b"HTTP/") => space,
        _ => rest.len(),
    };
    let target = target(&method, &rest[..end])?;
    Ok((method, target))
}

pub(super) fn method(method: &[u8]) -> Result<Method, Why> {
    Method::from_bytes(method).map_err(|_| Why::Method)
}

/// What a request asks for: a path, `*`, a whole URL (to a proxy), or a host (to `CONNECT` to).
pub(super) fn target(method: &Method, target: &[u8]) -> Result<Uri, Why> {
    let is_known = match target.first() {
        Some(b'/') => true,
        Some(b'*') => target.len() == 1,
        _ => {
            let begins = |with: &[u8]| {
                let begin = target.get(..with.len());
                begin.is_some_and(|begin| begin.eq_ignore_ascii_case(with))
            };
            begins(b"http://") || begins(b"https://") || method == Method::CONNECT
        }
    };
    if is_known {
        Uri::try_from(target).map_err(|_| Why::Target)
    } else {
        Err(Why::Target)
    }
}

/// An address, without its port and without its zone. A name of a host is none.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    let without_zone = || text.split_once('%')?.0.parse().ok();
    text.parse().ok().or_else(with_port).or_else(without_zone)
}

/// A status; `None` if there was no response (nginx's `000`) or it is not one of HTTP (gRPC's).
pub(super) fn status(status: u64) -> Result<Option<u16>, Why> {
    match u16::try_from(status) {
        Ok(0..=99) => Ok(None),
        Ok(status @ 100..=999) => Ok(Some(status)),
        _ => Err(Why::Status),
    }
}

/// Whether a text says that there is nothing.
pub(super) fn is_missing(text: &[u8]) -> bool {
    matches!(text, b"" | b"-")
}

/// When a request began that ended then.
pub(super) fn started(ended_micros: u64, took_micros: Option<u64>) -> Result<u64, Why> {
    ended_micros
        .checked_sub(took_micros.unwrap_or(0))
        .ok_or(Why::TimeOutOfRange)
}
