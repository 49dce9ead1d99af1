//! The fields of a JSON object, and the request that they describe.

use std::{borrow::Cow, mem, net::IpAddr};

use http::{HeaderName, Method, Uri};

use super::{
    Kept, LastTime, Logged, PackedHeaders, Why, debug_headers, names::Meaning, request, time, trace,
};

/// Caddy's text for secret headers. As a key it would be the same for all callers.
const REDACTED: &str = "REDACTED";

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar<'a> {
    Text(Cow<'a, str>),
    Whole(u64),
    Number(f64),
}

/// The fields of a line that describe a request.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    kept: &'a Kept,
    time: Ranked<Scalar<'a>>,
    address: Ranked<Scalar<'a>>,
    method: Option<Scalar<'a>>,
    target: Ranked<Scalar<'a>>,
    query: Option<Scalar<'a>>,
    request_line: Option<Scalar<'a>>,
    status: Option<Scalar<'a>>,
    took: Ranked<(Scalar<'a>, f64)>,
    user: Option<Scalar<'a>>,
    message: Option<Scalar<'a>>,
    headers: Result<PackedHeaders, Why>,
    debug_headers: Option<Scalar<'a>>,
    span_method: Option<Scalar<'a>>,
    span_target: Option<Scalar<'a>>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(kept: &'a Kept) -> Self {
        Self {
            kept,
            time: Ranked::default(),
            address: Ranked::default(),
            method: None,
            target: Ranked::default(),
            query: None,
            request_line: None,
            status: None,
            took: Ranked::default(),
            user: None,
            message: None,
            headers: Ok(PackedHeaders::default()),
            debug_headers: None,
            span_method: None,
            span_target: None,
        }
    }

    pub(super) fn add(&mut self, meaning: Meaning, value: Scalar<'a>) {
        if value.is_missing() {
            return;
        }
        let slot = match meaning {
            Meaning::Time { rank } => return self.time.set(rank, value),
            Meaning::Address { rank } => return self.address.set(rank, value),
            Meaning::Target { rank } => return self.target.set(rank, value),
            Meaning::Took { rank, micros_each } => {
                return self.took.set(rank, (value, micros_each));
            }
            Meaning::Header(name) => return self.add_header(&name, &value),
            Meaning::Nothing => return,
            Meaning::Method => &mut self.method,
            Meaning::Query => &mut self.query,
            Meaning::RequestLine => &mut self.request_line,
            Meaning::Status => &mut self.status,
            Meaning::User => &mut self.user,
            Meaning::Message => &mut self.message,
            Meaning::DebugHeaders => &mut self.debug_headers,
            Meaning::SpanMethod => &mut self.span_method,
            Meaning::SpanTarget => &mut self.span_target,
        };
        slot.get_or_insert(value);
    }

    /// The request of the line; `None` if it is another event.
    pub(super) fn request(mut self, last_time: &mut LastTime) -> Result<Option<Box<Logged>>, Why> {
        let message = self.message.as_ref().map(Scalar::text);
        if message.as_deref() == Some(trace::FINISHED) {
            // Other events have the same span around them.
            self.method = self.method.or(self.span_method.take());
            if let Some(target) = self.span_target.take() {
                self.target.set(0, target);
            }
        } else if message.is_some() && !self.ended() {
            return Ok(None);
        }
        let ended_micros = self.ended_micros(last_time)?;
        let took_micros = self.took_micros()?;
        let (method, uri) = self.method_and_uri()?;
        let logged = Logged {
            started_micros: request::started(ended_micros, took_micros)?,
            took_micros,
            address: self.address(),
            method,
            uri,
            headers: self.headers()?,
            user: self.user.as_ref().map(|user| user.text().into_owned()),
            status: self.status.as_ref().map_or(Ok(None), status)?,
        };
        Ok(Some(Box::new(logged)))
    }

    /// Whether this is the end of a request, and not an event in the middle of one.
    fn ended(&self) -> bool {
        let is_request = self.request_line.is_some() || self.target.0.is_some();
        is_request && (self.status.is_some() || self.took.0.is_some())
    }

    fn ended_micros(&self, last_time: &mut LastTime) -> Result<u64, Why> {
        match self.time.get().ok_or(Why::Time)? {
            Scalar::Text(text) => last_time.text(text),
            number => time::epoch(number.number()),
        }
    }

    fn took_micros(&self) -> Result<Option<u64>, Why> {
        let took = self.took.get().map(|(value, micros_each)| match value {
            Scalar::Text(text) => {
                time::duration_text(text, *micros_each).unwrap_or(Err(Why::Duration))
            }
            number => time::duration(number.number(), *micros_each),
        });
        took.transpose()
    }

    fn method_and_uri(&self) -> Result<(Method, Uri), Why> {
        if let Some(line) = &self.request_line
            && (self.method.is_none() || self.target.0.is_none())
        {
            return request::request_line(line.text().as_bytes());
        }
        let method = self.method.as_ref().ok_or(Why::Method)?;
        let method = request::method(method.text().as_bytes())?;
        let mut target = self.target.get().ok_or(Why::Target)?.text();
        if let Some(query) = &self.query
            && !target.contains('?')
        {
            target = format!("{target}?{}", query.text()).into();
        }
        let target = request::target(&method, target.as_bytes())?;
        Ok((method, target))
    }

    fn address(&self) -> Option<IpAddr> {
        request::address(self.address.get()?.text().as_bytes())
    }

    fn add_header(&mut self, name: &HeaderName, value: &Scalar<'_>) {
        let value = value.text();
        if value == REDACTED {
            return;
        }
        if let Ok(headers) = &mut self.headers
            && let Err(why) = headers.add(name, value.as_bytes(), self.kept)
        {
            self.headers = Err(why);
        }
    }

    fn headers(&mut self) -> Result<PackedHeaders, Why> {
        let mut headers = mem::replace(&mut self.headers, Err(Why::Header))?;
        if let Some(text) = &self.debug_headers {
            debug_headers::add(&mut headers, text.text().as_bytes(), self.kept)?;
        }
        Ok(headers)
    }
}

impl Scalar<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Scalar::Text(text) => Cow::Borrowed(text),
            Scalar::Whole(number) => number.to_string().into(),
            Scalar::Number(number) => number.to_string().into(),
        }
    }

    /// The number; not a number if it is a text.
    fn number(&self) -> f64 {
        match self {
            Scalar::Text(text) => text.parse().unwrap_or(f64::NAN),
            Scalar::Whole(number) => *number as f64,
            Scalar::Number(number) => *number,
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self, Scalar::Text(text) if request::is_missing(text.as_bytes()))
    }
}

fn status(status: &Scalar<'_>) -> Result<Option<u16>, Why> {
    request::status(match status {
        Scalar::Whole(status) => *status,
        Scalar::Text(text) => text.parse().map_err(|_| Why::Status)?,
        Scalar::Number(_) => return Err(Why::Status),
    })
}

/// The value of the highest rank; the first of these.
#[derive(Debug)]
struct Ranked<T>(Option<(u8, T)>);

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Ranked<T> {
    fn set(&mut self, rank: u8, value: T) {
        if self.0.as_ref().is_none_or(|(known, _)| rank > *known) {
            self.0 = Some((rank, value));
        }
    }

    fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }
}
