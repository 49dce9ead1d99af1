//! One JSON object a line: nginx's own formats, Caddy, `tracing-subscriber`'s JSON, and others that
//! use names like theirs.

mod entry;
mod names;
mod object;

use self::{entry::Entry, object::read_object};
use super::{
    Why, debug_headers,
    headers::{Kept, PackedHeaders},
    request,
    time::{self, LastTime},
    trace,
};
use crate::logged::Logged;

/// `None` if the line is another event than a request.
pub(super) fn read(
    line: &[u8],
    last_time: &mut LastTime,
    kept: &Kept,
) -> Result<Option<Box<Logged>>, Why> {
    let mut entry = Entry::new(kept);
    read_object(line, &mut entry)?;
    entry.request(last_time)
}
