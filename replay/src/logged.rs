//! A request as a log line describes it.

use std::net::IpAddr;

use http::{Method, Uri};

use crate::log::PackedHeaders;

/// The request of a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// When it came, in microseconds since the Unix epoch.
    pub started_micros: u64,
    /// How long it ran, if the log says so; in microseconds.
    pub took_micros: Option<u64>,
    /// Who sent it, as the log says.
    pub address: Option<IpAddr>,
    /// The method.
    pub method: Method,
    /// The path and the query, with the host where the log has it.
    pub uri: Uri,
    /// The header fields that the log has: `user-agent`, `referer`, `host`, and those that it
    /// names as a field of a request.
    pub headers: PackedHeaders,
    /// The user that the log names.
    pub user: Option<String>,
    /// The status of the response.
    pub status: Option<u16>,
}
