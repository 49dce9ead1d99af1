//! Reads the fields `key` of a rule, `by` of plans, and `proxies` of the file.

use std::{fmt, sync::Arc};

use http::HeaderName;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::{
    config::{InField, InMap, ReadFields, value},
    key::{ClientIp, Header, PeerIp},
};

use super::{
    super::key_source::{KeySource, NamedExtension, OnMissing, PlanSource},
    EachIn, File, one_of,
};

/// The field `key` of a rule, which `of` names.
#[derive(Clone, Copy)]
pub(super) struct KeySeed<'a, 'b> {
    pub(super) file: &'a File<'b>,
    pub(super) of: &'a str,
}

impl<'a, 'b> KeySeed<'a, 'b> {
    /// A map that names the source of this field.
    pub(super) fn source(self, field: &'static str) -> InMap<SourceFields<'a, 'b>> {
        InMap(SourceFields {
            key: self,
            field,
            header: None,
            extension: None,
            missing: OnMissing::Reject,
        })
    }
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_, '_> {
    type Value = KeySource;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeySource, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeySeed<'_, '_> {
    type Value = KeySource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}`key` to be \"everyone\", \"address\", \"client\", \"route\", a header, an extension or a list of these",
            self.of
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<KeySource, E> {
        match (text, &self.file.client) {
            ("everyone", _) => Ok(KeySource::Everyone),
            ("address", _) => Ok(KeySource::Address(PeerIp::new())),
            ("route", _) => Ok(KeySource::Route),
            ("client", Some(client)) => Ok(KeySource::Client(Arc::new(client.clone()))),
            ("client", None) => Err(E::custom(format_args!(
                "{}`key` is \"client\", which needs `proxies` before the rules",
                self.of
            ))),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeySource, A::Error> {
        let mut sources = Vec::new();
        while let Some(source) = list.next_element_seed(self)? {
            sources.push(source);
        }
        match sources.len() {
            0 => Err(A::Error::invalid_length(0, &self)),
            _ => Ok(KeySource::Several(sources.into())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KeySource, A::Error> {
        let (source, on_missing) = self.source("key").visit_map(map)?;
        Ok(match (source, on_missing) {
            (PlanSource::Header(name), OnMissing::Reject) => KeySource::Header(Header::new(name)),
            (PlanSource::Header(name), OnMissing::Next) => {
                KeySource::Header(Header::new(name).or_skip())
            }
            (PlanSource::Header(name), OnMissing::Share) => {
                KeySource::Header(Header::new(name).or_shared())
            }
            (PlanSource::Extension(extension), _) => KeySource::Extension(extension, on_missing),
        })
    }
}

/// A header or an extension by its name, and what to do with a request that does not have it.
pub(super) struct SourceFields<'a, 'b> {
    key: KeySeed<'a, 'b>,
    field: &'static str,
    header: Option<String>,
    extension: Option<String>,
    missing: OnMissing,
}

impl SourceFields<'_, '_> {
    fn extension(&self, name: &str) -> Result<NamedExtension, String> {
        let extensions = self.key.file.extensions;
        extensions.get(name).cloned().ok_or_else(|| {
            let mut known: Vec<_> = extensions.keys().map(|name| format!("`{name}`")).collect();
            known.sort();
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            format!(
                "`extension` is {name:?}, which the program does not register (it registers {known})"
            )
        })
    }
}

impl ReadFields for SourceFields<'_, '_> {
    type Output = (PlanSource, OnMissing);

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        let fields: &[_] = match self.field {
            "key" => &["header", "extension", "missing"],
            _ => &["header", "extension"],
        };
        (self.key.of, format!("`{}`", self.field), fields)
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        let named = (self.key.of, field);
        match field {
            "header" => self.header = value(named, map)?,
            "extension" => self.extension = value(named, map)?,
            "missing" if self.field == "key" => {
                let values = [
                    ("reject", OnMissing::Reject),
                    ("next", OnMissing::Next),
                    ("shared", OnMissing::Share),
                ];
                self.missing = one_of(named, &values, map)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<Self::Output, String> {
        let source = match (&self.header, &self.extension) {
            (Some(name), None) => {
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| format!("`header`: {name:?} is not a header name"))?;
                PlanSource::Header(name)
            }
            (None, Some(name)) => PlanSource::Extension(self.extension(name)?),
            _ => {
                let field = self.field;
                return Err(format!(
                    "`{field}` needs `header` or `extension`, one of the two"
                ));
            }
        };
        Ok((source, self.missing))
    }
}

/// The trusted proxies, and the header in which they name the client.
#[derive(Default)]
pub(super) struct Proxies {
    header: Option<String>,
    trusted: Vec<String>,
}

impl ReadFields for Proxies {
    type Output = ClientIp;

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        (
            "`proxies`: ",
            "`proxies`".to_owned(),
            &["trusted", "header"],
        )
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        let of = "`proxies`: ";
        match field {
            "header" => self.header = value((of, field), map)?,
            "trusted" => {
                self.trusted = map.next_value_seed(EachIn {
                    read: || InField::<String>::new(of, "trusted"),
                    what: format!("{of}`trusted` to be a list of blocks such as \"10.0.0.0/8\""),
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<ClientIp, String> {
        let client = match self.header.as_deref() {
            None => return Err("`header` is missing, such as \"x-forwarded-for\"".to_owned()),
            Some("x-forwarded-for") => ClientIp::try_x_forwarded_for(self.trusted),
            Some("forwarded") => ClientIp::try_forwarded(self.trusted),
            Some(other) => ClientIp::try_header(other, self.trusted),
        };
        client.map_err(|error| error.to_string())
    }
}
