//! What the names of fields mean.

use http::{HeaderName, header};

/// What a value within an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The line itself, or the fields of a tracing event.
    Line,
    /// The object that has the request: Caddy's `request`, `req`, `httpRequest`.
    Request,
    /// The object that has the response: only its status counts.
    Response,
    /// An object that has header fields.
    Headers,
    /// A span of `tracing`, around an event.
    Span,
    /// Nothing that is known.
    Unknown,
}

impl Place {
    /// Where the values are that an object of this name has.
    pub(super) fn inner(self, name: &str) -> Place {
        match (self, name) {
            (Place::Line, "fields") => Place::Line,
            (Place::Line, "span" | "spans") => Place::Span,
            (Place::Line, "request" | "req" | "httpRequest" | "http_request") => Place::Request,
            (Place::Line, "response" | "res") => Place::Response,
            (Place::Line | Place::Request, "headers" | "request_headers") => Place::Headers,
            _ => Place::Unknown,
        }
    }
}

/// What a field tells. Where a line has several fields for it, the one with the highest rank
/// counts, and the first of these.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meaning {
    Time {
        rank: u8,
    },
    Address {
        rank: u8,
    },
    Method,
    Target {
        rank: u8,
    },
    Query,
    /// The method and the target in one.
    RequestLine,
    Status,
    /// With the unit that a bare number has.
    Took {
        rank: u8,
        micros_each: f64,
    },
    User,
    Message,
    Header(HeaderName),
    /// Header fields as `HeaderMap` prints them by `Debug`.
    DebugHeaders,
    SpanMethod,
    SpanTarget,
    Nothing,
}

impl Meaning {
    pub(super) fn of(place: Place, name: &str) -> Meaning {
        match place {
            Place::Line | Place::Request => field(name),
            Place::Response => match field(name) {
                Meaning::Status => Meaning::Status,
                _ => Meaning::Nothing,
            },
            Place::Headers => header_field(name),
            Place::Span => match name {
                "method" => Meaning::SpanMethod,
                "uri" => Meaning::SpanTarget,
                "headers" => Meaning::DebugHeaders,
                _ => Meaning::Nothing,
            },
            Place::Unknown => Meaning::Nothing,
        }
    }
}

fn field(name: &str) -> Meaning {
    match name {
        // nginx's `$msec` has milliseconds; its other times have only seconds.
        "msec" => Meaning::Time { rank: 1 },
        "time" | "time_iso8601" | "time_local" | "@timestamp" | "timestamp" | "ts" | "datetime" => {
            Meaning::Time { rank: 0 }
        }
        // Caddy's `client_ip` is behind its trusted proxies, as the layer's key would be.
        "client_ip" => Meaning::Address { rank: 1 },
        "remote_addr" | "remote_ip" | "remote_address" | "client_addr" | "client_address"
        | "clientip" | "client" | "ip" | "remoteIp" | "remoteAddress" => {
            Meaning::Address { rank: 0 }
        }
        "request_method" | "method" | "http_method" | "requestMethod" => Meaning::Method,
        // nginx's `$uri` has no query.
        "request_uri" => Meaning::Target { rank: 1 },
        "uri" | "path" | "url" | "request_path" | "requestUrl" => Meaning::Target { rank: 0 },
        "args" | "query" | "query_string" => Meaning::Query,
        "request" => Meaning::RequestLine,
        "status" | "status_code" | "http_status" | "response_status" | "response_code"
        | "statusCode" => Meaning::Status,
        "user" | "remote_user" | "user_id" | "username" => Meaning::User,
        "message" | "msg" => Meaning::Message,
        "host" => Meaning::Header(header::HOST),
        "user_agent" | "userAgent" => Meaning::Header(header::USER_AGENT),
        "referer" | "referrer" => Meaning::Header(header::REFERER),
        "x_forwarded_for" => header_field("x-forwarded-for"),
        // These are no header fields, though they begin alike.
        "http_version" | "http_protocol" | "http_scheme" => Meaning::Nothing,
        _ => match name.strip_prefix("http_") {
            Some(name) => header_field(&name.replace('_', "-")),
            None => took(name),
        },
    }
}

/// `duration`, `latency_ms` and the like.
fn took(name: &str) -> Meaning {
    let known = [
        "request_time",
        "duration",
        "latency",
        "elapsed",
        "response_time",
    ];
    if name == "responseTime" {
        return Meaning::Took {
            rank: 0,
            micros_each: 1e3,
        };
    }
    let is_known = |name: &str| known.contains(&name);
    let micros_each = match name.rsplit_once('_') {
        _ if is_known(name) => 1e6,
        Some((name, "s" | "secs" | "seconds")) if is_known(name) => 1e6,
        Some((name, "ms" | "millis")) if is_known(name) => 1e3,
        Some((name, "us" | "micros")) if is_known(name) => 1.0,
        Some((name, "ns" | "nanos")) if is_known(name) => 1e-3,
        // Echo's `latency` is in nanoseconds; this one has its unit.
        Some((name, "human")) if is_known(name) => {
            return Meaning::Took {
                rank: 1,
                micros_each: 1e6,
            };
        }
        _ => return Meaning::Nothing,
    };
    Meaning::Took {
        rank: 0,
        micros_each,
    }
}

/// A name that no header field can have means nothing.
fn header_field(name: &str) -> Meaning {
    HeaderName::from_bytes(name.as_bytes()).map_or(Meaning::Nothing, Meaning::Header)
}
