use std::{fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, Unexpected, Visitor},
};

use crate::{
    error::ConfigError,
    quota::{Quota, span_of_text},
};

/// What can stand in a field. It is asked for as what it is, so that formats that know only texts
/// can turn it into that.
pub(super) trait Value: Sized {
    /// What is expected, in words.
    const WHAT: &'static str;

    fn ask<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error>;

    fn of_text(_text: &str) -> Option<Result<Self, ConfigError>> {
        None
    }

    fn of_number(_number: u64) -> Option<Self> {
        None
    }

    fn of_flag(_flag: bool) -> Option<Self> {
        None
    }
}

/// Reads a value, and names the field in every error.
pub(super) struct InField<'a, T>(pub(super) &'a str, pub(super) PhantomData<T>);

impl<'de, T: Value> DeserializeSeed<'de> for InField<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::ask(deserializer, self)
    }
}

impl<T: Value> Visitor<'_> for InField<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` to be {}", self.0, T::WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        match T::of_text(text) {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(E::custom(format_args!("`{}`: {error}", self.0))),
            None => Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::of_number(number).ok_or_else(|| E::invalid_type(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        T::of_flag(flag).ok_or_else(|| E::invalid_type(Unexpected::Bool(flag), &self))
    }
}

impl Value for Quota {
    const WHAT: &'static str = "a quota such as \"20/s\"";

    fn ask<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_str(visitor)
    }

    fn of_text(text: &str) -> Option<Result<Self, ConfigError>> {
        Some(text.parse())
    }
}

impl Value for Duration {
    const WHAT: &'static str = "a span of time such as \"100ms\"";

    fn ask<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_str(visitor)
    }

    fn of_text(text: &str) -> Option<Result<Self, ConfigError>> {
        Some(span_of_text(text))
    }
}

impl Value for String {
    const WHAT: &'static str = "a text";

    fn ask<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_str(visitor)
    }

    fn of_text(text: &str) -> Option<Result<Self, ConfigError>> {
        Some(Ok(text.to_owned()))
    }
}

impl Value for u64 {
    const WHAT: &'static str = "a whole number";

    fn ask<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(visitor)
    }

    fn of_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Value for bool {
    const WHAT: &'static str = "true or false";

    fn ask<'de, D: Deserializer<'de>>(
        deserializer: D,
        visitor: InField<'_, Self>,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_bool(visitor)
    }

    fn of_flag(flag: bool) -> Option<Self> {
        Some(flag)
    }
}
