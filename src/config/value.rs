//! Reads the value of a field as a text that was checked.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, Unexpected, Visitor},
};

use crate::algorithm::described::{Field, Input};

/// Reads the value of a field, which every error names.
pub(super) struct InField<'a>(pub(super) &'a Field);

impl InField<'_> {
    fn take<E: Error>(&self, input: Input, given: Unexpected<'_>, text: &str) -> Result<String, E> {
        if input != self.0.kind.input {
            return Err(E::invalid_type(given, self));
        }
        match (self.0.kind.check)(text) {
            Ok(()) => Ok(text.to_owned()),
            Err(why) => Err(E::custom(format_args!("`{}`: {why}", self.0.name))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for InField<'_> {
    type Value = String;

    /// A format that has nothing but texts is told what to make of them.
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        match self.0.kind.input {
            Input::Text => deserializer.deserialize_str(self),
            Input::Number => deserializer.deserialize_u64(self),
            Input::Flag => deserializer.deserialize_bool(self),
        }
    }
}

impl Visitor<'_> for InField<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` to be {}", self.0.name, self.0.kind.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        self.take(Input::Text, Unexpected::Str(text), text)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        self.take(
            Input::Number,
            Unexpected::Unsigned(number),
            &number.to_string(),
        )
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<String, E> {
        self.take(Input::Flag, Unexpected::Bool(flag), &flag.to_string())
    }
}
