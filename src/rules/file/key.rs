//! Reads the fields `key` of a rule, `by` of plans, and `proxies` of the file.

use std::{fmt, sync::Arc};

use http::HeaderName;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::{
    config::{once, wrong},
    key::{ClientIp, Header, PeerIp},
};

use super::{
    super::key_source::{KeySource, NamedExtension, OnMissing, PlanSource},
    EachIn, File,
    list::TextSeed,
};

/// The field `key` of the rule with this name.
#[derive(Clone, Copy)]
pub(super) struct KeySeed<'a, 'b> {
    pub(super) file: &'a File<'b>,
    pub(super) of: &'a str,
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

    fn visit_str<E: de::Error>(self, text: &str) -> Result<KeySource, E> {
        match (text, &self.file.client) {
            ("everyone", _) => Ok(KeySource::Everyone),
            ("address", _) => Ok(KeySource::Address(PeerIp::new())),
            ("route", _) => Ok(KeySource::Route),
            ("client", Some(client)) => Ok(KeySource::Client(Arc::new(client.clone()))),
            ("client", None) => Err(E::custom(format_args!(
                "{}`key` is \"client\", which needs `proxies` before the rules",
                self.of
            ))),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KeySource, A::Error> {
        let mut sources = Vec::new();
        while let Some(source) = list.next_element_seed(self)? {
            sources.push(source);
        }
        match sources.len() {
            0 => Err(de::Error::invalid_length(0, &self)),
            _ => Ok(KeySource::Several(sources.into())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KeySource, A::Error> {
        let named = Named::read(self.of, "key", true, map)?;
        let on_missing = match named.missing.as_deref() {
            None | Some("reject") => OnMissing::Reject,
            Some("next") => OnMissing::Next,
            Some("shared") => OnMissing::Share,
            Some(other) => {
                return Err(de::Error::custom(format_args!(
                    "{}`missing` is {other:?}, but must be \"reject\", \"next\" or \"shared\"",
                    self.of
                )));
            }
        };
        match named.source {
            Source::Header(name) => {
                let header = Header::try_new(name).map_err(|error| self.in_field(&error))?;
                Ok(KeySource::Header(match on_missing {
                    OnMissing::Reject => header,
                    OnMissing::Next => header.or_skip(),
                    OnMissing::Share => header.or_shared(),
                }))
            }
            Source::Extension(name) => {
                let extension = self.file.extension(self.of, &name)?;
                Ok(KeySource::Extension(extension, on_missing))
            }
        }
    }
}

impl KeySeed<'_, '_> {
    fn in_field<E: de::Error>(&self, error: &dyn fmt::Display) -> E {
        E::custom(format_args!("{}`header`: {error}", self.of))
    }
}

impl File<'_> {
    fn extension<E: de::Error>(&self, of: &str, name: &str) -> Result<NamedExtension, E> {
        self.extensions.get(name).cloned().ok_or_else(|| {
            let mut known: Vec<_> = self
                .extensions
                .keys()
                .map(|name| format!("`{name}`"))
                .collect();
            known.sort();
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            E::custom(format_args!(
                "{of}`extension` is {name:?}, which the program does not register (it registers {known})"
            ))
        })
    }
}

/// A header, or an extension, by its name.
struct Named {
    source: Source,
    missing: Option<String>,
}

enum Source {
    Header(String),
    Extension(String),
}

impl Named {
    fn read<'de, A: MapAccess<'de>>(
        of: &str,
        field: &str,
        may_be_missing: bool,
        mut map: A,
    ) -> Result<Self, A::Error> {
        let (mut header, mut extension, mut missing) = (None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            match &*name {
                "header" => once(&mut header, (of, "header"), &mut map)?,
                "extension" => once(&mut extension, (of, "extension"), &mut map)?,
                "missing" if may_be_missing => once(&mut missing, (of, "missing"), &mut map)?,
                _ => {
                    return Err(de::Error::custom(format_args!(
                        "{of}`{name}` is not a field of `{field}`, which has `header` or `extension`{}",
                        if may_be_missing {
                            ", and `missing`"
                        } else {
                            ""
                        }
                    )));
                }
            }
        }
        let source = match (header, extension) {
            (Some(name), None) => Source::Header(name),
            (None, Some(name)) => Source::Extension(name),
            _ => {
                return Err(de::Error::custom(format_args!(
                    "{of}`{field}` needs `header` or `extension`, one of the two"
                )));
            }
        };
        Ok(Self { source, missing })
    }
}

/// The value that selects a plan.
pub(super) struct PlanSourceSeed<'a, 'b>(pub(super) KeySeed<'a, 'b>);

impl<'de> DeserializeSeed<'de> for PlanSourceSeed<'_, '_> {
    type Value = PlanSource;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PlanSource, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PlanSourceSeed<'_, '_> {
    type Value = PlanSource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}`by` to be a header or an extension", self.0.of)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PlanSource, A::Error> {
        let KeySeed { file, of } = self.0;
        match Named::read(of, "by", false, map)?.source {
            Source::Header(name) => match HeaderName::from_bytes(name.as_bytes()) {
                Ok(name) => Ok(PlanSource::Header(name)),
                Err(_) => Err(self
                    .0
                    .in_field(&format_args!("{name:?} is not a header name"))),
            },
            Source::Extension(name) => Ok(PlanSource::Extension(file.extension(of, &name)?)),
        }
    }
}

/// The trusted proxies, and the header in which they name the client.
pub(super) struct ProxiesSeed;

impl<'de> DeserializeSeed<'de> for ProxiesSeed {
    type Value = ClientIp;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ClientIp, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ProxiesSeed {
    type Value = ClientIp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`proxies` as a map of `trusted` and `header`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ClientIp, A::Error> {
        let (mut header, mut trusted) = (None::<String>, None::<Vec<String>>);
        while let Some(field) = map.next_key::<String>()? {
            match &*field {
                "header" => once(&mut header, ("`proxies`: ", "header"), &mut map)?,
                "trusted" if trusted.is_none() => {
                    trusted =
                        Some(
                            map.next_value_seed(EachIn {
                                read: || TextSeed("`proxies`: ", "trusted"),
                                what: "`trusted` to be a list of blocks such as \"10.0.0.0/8\""
                                    .to_owned(),
                            })?,
                        );
                }
                _ => {
                    let unknown = format!(
                        "`{field}` is not a field of `proxies`, which has `trusted` and `header`, each once"
                    );
                    return Err(wrong(&mut map, &unknown));
                }
            }
        }
        let trusted = trusted.unwrap_or_default();
        let client = match header.as_deref() {
            None => {
                return Err(de::Error::custom(
                    "`proxies` needs `header`, such as \"x-forwarded-for\"",
                ));
            }
            Some("x-forwarded-for") => ClientIp::try_x_forwarded_for(trusted),
            Some("forwarded") => ClientIp::try_forwarded(trusted),
            Some(other) => ClientIp::try_header(other, trusted),
        };
        client.map_err(|error| de::Error::custom(format_args!("`proxies`: {error}")))
    }
}
