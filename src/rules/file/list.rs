//! Reads a value, or a list of values.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
    value::MapAccessDeserializer,
};

/// Reads each value of a list, or a single value without a list. `read` makes a seed that reads one
/// value; `what` describes the values in messages.
pub(super) struct EachIn<F> {
    pub(super) read: F,
    pub(super) what: String,
}

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> DeserializeSeed<'de> for EachIn<F> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> Visitor<'de> for EachIn<F> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let one = (self.read)().deserialize(text.into_deserializer())?;
        Ok(vec![one])
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let one = (self.read)().deserialize(MapAccessDeserializer::new(map))?;
        Ok(vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed((self.read)())? {
            values.push(value);
        }
        Ok(values)
    }
}
