//! Reads access logs into requests, in the order in which these came.
//!
//! | form | who writes it |
//! |---|---|
//! | [`Format::Combined`] | nginx and Apache: `combined`, `common`, and what is added to them |
//! | [`Format::Json`] | nginx's own formats, Caddy, and `tracing-subscriber`'s JSON |
//! | [`Format::Trace`] | `tower-http`'s `TraceLayer`, by `tracing-subscriber`'s text formats |
//!
//! A log line is written when its request ends, so the longest requests come last. [`Reader`]
//! subtracts the duration if the log has it, and sorts within a window of bounded time and memory.
//! A line without a request is counted, and never an error. A request that is dated far ahead of
//! the lines around it is counted, and gets their time.

mod combined;
mod debug_headers;
mod format;
mod headers;
mod json;
mod lines;
mod log_clock;
mod reader;
mod request;
mod time;
mod trace;
mod unreadable;
mod window;

#[cfg(test)]
mod tests;

pub use self::{
    format::Format,
    headers::PackedHeaders,
    reader::{Options, Reader},
    unreadable::{Unreadable, UnreadableLine, Why},
};
