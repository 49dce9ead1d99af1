//! The text of a rule's keys in a report.

use std::net::IpAddr;

use http::{HeaderName, Request};
use serde_json::Value;
use tollgate::rules::KeyValue;

use crate::extensions::{ExtensionSources, Source};

/// Where the key of a rule comes from, for those who read a report: nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyText {
    /// It is an address, or the same for everyone.
    OfTheKey,
    /// It is the route, which no log has.
    Route,
    /// It is the value of a header field.
    Header(String),
    /// It is that of an extension.
    Extension(String),
    /// There are several.
    Several(Vec<KeyText>),
}

/// How the values of header fields are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderValues {
    /// As tollgate logs them: at most four bytes, and the length.
    Cut,
    /// As they are.
    Whole,
}

impl KeyText {
    /// Reads the `key` of a rule.
    pub fn of(key: Option<&Value>) -> Self {
        match key {
            Some(Value::String(text)) if text == "route" => Self::Route,
            Some(Value::Array(keys)) => {
                Self::Several(keys.iter().map(|key| Self::of(Some(key))).collect())
            }
            Some(Value::Object(source)) => {
                let text = |field| source.get(field).and_then(Value::as_str);
                match (text("header"), text("extension")) {
                    (Some(header), _) => Self::Header(header.to_owned()),
                    (None, Some(extension)) => Self::Extension(extension.to_owned()),
                    _ => Self::OfTheKey,
                }
            }
            _ => Self::OfTheKey,
        }
    }

    /// Whether it depends on the route.
    pub fn has_route(&self) -> bool {
        match self {
            Self::Route => true,
            Self::Several(keys) => keys.iter().any(Self::has_route),
            _ => false,
        }
    }

    /// The names of the extensions that it depends on.
    pub fn extensions(&self) -> Vec<&str> {
        match self {
            Self::Extension(name) => vec![name],
            Self::Several(keys) => keys.iter().flat_map(Self::extensions).collect(),
            _ => Vec::new(),
        }
    }

    /// The key of a request, as it came: it may have any characters.
    pub fn show(
        &self,
        key: &KeyValue,
        request: &Request<()>,
        extensions: &ExtensionSources,
        headers: HeaderValues,
    ) -> String {
        let of_header = |name: &HeaderName, headers| match (headers, key) {
            (HeaderValues::Cut, KeyValue::Value(value)) => value.to_string(),
            _ => match request.headers().get(name) {
                Some(value) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
                None => "no value".to_owned(),
            },
        };
        match (self, key) {
            (Self::Several(sources), KeyValue::Several(keys)) => {
                let each = sources.iter().zip(&**keys);
                let shown = each.map(|(of, key)| of.show(key, request, extensions, headers));
                shown.collect::<Vec<_>>().join(" + ")
            }
            (_, KeyValue::Address(IpAddr::V6(network))) => format!("{network}/64"),
            (_, KeyValue::Address(address)) => address.to_string(),
            (Self::Route, KeyValue::Everyone) => "every route".to_owned(),
            (Self::Extension(_), KeyValue::Everyone) => "no value".to_owned(),
            (_, KeyValue::Everyone) => "everyone".to_owned(),
            (Self::Header(name), _) => match HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => of_header(&name, headers),
                Err(_) => format!("{key:?}"),
            },
            (Self::Extension(name), _) => match extensions.of(name) {
                Source::Header(field) => of_header(field, headers),
                _ => match extensions.value(name, request) {
                    Some(value) => value.to_owned(),
                    None => format!("{key:?}"),
                },
            },
            _ => format!("{key:?}"),
        }
    }
}
