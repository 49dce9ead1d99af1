//! Reads the value of a field as a text that was checked.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, Unexpected, Visitor},
};

use crate::algorithm::described::{Input, Kind};

/// Reads the value of a field, which every error names.
pub(crate) struct InField<'a> {
    /// What the field belongs to, such as `rule 3: `; usually empty.
    pub(crate) of: &'a str,
    pub(crate) field: &'a str,
    pub(crate) kind: Kind,
}

impl InField<'_> {
    fn take<E: Error>(&self, input: Input, given: Unexpected<'_>, text: &str) -> Result<String, E> {
        if input != self.kind.input {
            return Err(E::invalid_type(given, self));
        }
        match (self.kind.check)(text) {
            Ok(()) => Ok(text.to_owned()),
            Err(why) => Err(E::custom(format_args!(
                "{}`{}`: {why}",
                self.of, self.field
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for InField<'_> {
    type Value = String;

    /// A format that has nothing but texts is told what to make of them.
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        match self.kind.input {
            Input::Text => deserializer.deserialize_str(self),
            Input::Number => deserializer.deserialize_u64(self),
            Input::Flag => deserializer.deserialize_bool(self),
        }
    }
}

impl Visitor<'_> for InField<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}`{}` to be {}",
            self.of, self.field, self.kind.expected
        )
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
