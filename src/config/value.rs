use std::{fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, Unexpected, Visitor},
};

use crate::quota::{Quota, span_of_text};

/// The value of a field.
pub(crate) trait Value: Sized {
    /// The expected value, in words, for messages.
    const EXPECTED: &'static str;
    const HINT: Hint = Hint::Text;

    /// The value that is given so; `None` if it is of another kind.
    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>>;
}

/// What the deserializer is told to expect, so that formats with nothing but text can convert it.
pub(crate) enum Hint {
    Text,
    Number,
    Flag,
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

impl<T: Value> InField<'_, T> {
    fn take<E: Error>(&self, given: Unexpected<'_>) -> Result<T, E> {
        let Some(taken) = T::from(&given) else {
            return Err(E::invalid_type(given, self));
        };
        taken.map_err(|why| E::custom(format_args!("{}`{}`: {why}", self.of, self.field)))
    }
}

impl<'de, T: Value> DeserializeSeed<'de> for InField<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        match T::HINT {
            Hint::Text => deserializer.deserialize_str(self),
            Hint::Number => deserializer.deserialize_u64(self),
            Hint::Flag => deserializer.deserialize_bool(self),
        }
    }
}

impl<T: Value> Visitor<'_> for InField<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}`{}` to be {}", self.of, self.field, T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.take(Unexpected::Str(text))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.take(Unexpected::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        self.take(Unexpected::Bool(flag))
    }
}

impl Value for Quota {
    const EXPECTED: &'static str = "a quota such as \"20/s\"";

    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>> {
        let Unexpected::Str(text) = given else {
            return None;
        };
        Some(text.parse::<Self>().map_err(|error| error.to_string()))
    }
}

impl Value for Duration {
    const EXPECTED: &'static str = "a span of time such as \"100ms\"";

    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>> {
        let Unexpected::Str(text) = given else {
            return None;
        };
        Some(span_of_text(text).map_err(|error| error.to_string()))
    }
}

impl Value for String {
    const EXPECTED: &'static str = "a text";

    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>> {
        match given {
            Unexpected::Str(text) => Some(Ok((*text).to_owned())),
            _ => None,
        }
    }
}

impl Value for u64 {
    const EXPECTED: &'static str = "a whole number";
    const HINT: Hint = Hint::Number;

    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>> {
        match given {
            Unexpected::Unsigned(number) => Some(Ok(*number)),
            _ => None,
        }
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    const HINT: Hint = Hint::Flag;

    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>> {
        match given {
            Unexpected::Bool(flag) => Some(Ok(*flag)),
            _ => None,
        }
    }
}
