//! Reads the value of a field as a text that was checked, and maps without duplicates.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};

use crate::{
    algorithm::described::{Field, Kind},
    quota::{Quota, span_of_text},
};

/// What stands in a field, before anybody knows what is expected there.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    Flag(bool),
    Number(u64),
    Text(String),
    Other(IgnoredAny),
}

impl Value {
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Other(_) => None,
        }
    }

    /// The text of what this field expects. Some formats have nothing but texts, so that a number
    /// may be written as one.
    pub(super) fn in_field(&self, field: &Field) -> Result<String, String> {
        let (name, expected) = (field.name, field.kind.expected());
        let text = self.text();
        let text = text.ok_or_else(|| format!("`{name}` must be {expected}"))?;
        let (is_one, checked) = match field.kind {
            Kind::Text => (true, Ok(())),
            Kind::AtOnce => (text.parse::<u64>().is_ok(), Ok(())),
            Kind::Flag => (text.parse::<bool>().is_ok(), Ok(())),
            Kind::Quota => (true, text.parse::<Quota>().map(drop)),
            Kind::Span | Kind::Interval => (true, span_of_text(&text).map(drop)),
        };
        match checked {
            Err(why) => Err(format!("`{name}`: {why}")),
            Ok(()) if is_one => Ok(text),
            Ok(()) => Err(format!("`{name}` is {text:?}, but must be {expected}")),
        }
    }
}

/// A map in which no name may stand twice; that of the standard library keeps the last value.
pub(crate) struct Distinct<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Distinct<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DistinctVisitor(PhantomData))
    }
}

struct DistinctVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for DistinctVisitor<V> {
    type Value = Distinct<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct<V>, A::Error> {
        let mut distinct = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if distinct.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            distinct.insert(name, map.next_value()?);
        }
        Ok(Distinct(distinct))
    }
}
