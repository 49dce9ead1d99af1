use std::{fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, Unexpected, Visitor},
};

use crate::{
    error::ConfigError,
    quota::{Quota, span_of_text},
};

/// The value of a field. It tells the deserializer its type, so that formats with nothing but text
/// can convert it.
pub(crate) trait Value: Sized {
    /// The expected value, in words, for messages.
    const EXPECTED: &'static str;

    fn deserialize_with<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error>;

    fn from_text(_text: &str) -> Option<Result<Self, ConfigError>> {
        None
    }

    fn from_number(_number: u64) -> Option<Self> {
        None
    }

    fn from_bool(_flag: bool) -> Option<Self> {
        None
    }
}

/// Reads a value, naming the field in every error.
pub(crate) struct InField<'a, T> {
    /// What the field belongs to, such as `rule 3: `; usually empty.
    of: &'a str,
    field: &'a str,
    value: PhantomData<T>,
}

impl<'a, T> InField<'a, T> {
    pub(crate) fn new(of: &'a str, field: &'a str) -> Self {
        Self {
            of,
            field,
            value: PhantomData,
        }
    }
}

impl<'de, T: Value> DeserializeSeed<'de> for InField<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize_with(deserializer, self)
    }
}

impl<T: Value> Visitor<'_> for InField<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}`{}` to be {}", self.of, self.field, T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        match T::from_text(text) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(E::custom(format_args!(
                "{}`{}`: {error}",
                self.of, self.field
            ))),
            None => Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::from_number(number).ok_or_else(|| E::invalid_type(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        T::from_bool(value).ok_or_else(|| E::invalid_type(Unexpected::Bool(value), &self))
    }
}

impl Value for Quota {
    const EXPECTED: &'static str = "a quota such as \"20/s\"";

    fn deserialize_with<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_str(visitor)
    }

    fn from_text(text: &str) -> Option<Result<Self, ConfigError>> {
        Some(text.parse())
    }
}

impl Value for Duration {
    const EXPECTED: &'static str = "a span of time such as \"100ms\"";

    fn deserialize_with<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_str(visitor)
    }

    fn from_text(text: &str) -> Option<Result<Self, ConfigError>> {
        Some(span_of_text(text))
    }
}

impl Value for String {
    const EXPECTED: &'static str = "a text";

    fn deserialize_with<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_str(visitor)
    }

    fn from_text(text: &str) -> Option<Result<Self, ConfigError>> {
        Some(Ok(text.to_owned()))
    }
}

impl Value for u64 {
    const EXPECTED: &'static str = "a whole number";

    fn deserialize_with<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(visitor)
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";

    fn deserialize_with<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_bool(visitor)
    }

    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}
