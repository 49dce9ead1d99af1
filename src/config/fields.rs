use std::{collections::HashSet, convert::Infallible, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor},
};

use super::value::{InField, Value};

/// What a map of fields is read into. [`InMap`] reads it.
pub(crate) trait ReadFields: Sized {
    type Output;

    /// What the map belongs to, such as `rule 3: `, what it is, and its fields, for messages.
    fn about(&self) -> (&str, String, &'static [&'static str]);

    /// Reads the value of this field. Returns `false`, and reads nothing, if there is no such
    /// field.
    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error>;

    /// What was read, or what is wrong with it.
    fn finish(self) -> Result<Self::Output, String>;

    /// The same from a text that stands in place of the map, if it may.
    fn text(&self, _text: &str) -> Option<Result<Self::Output, String>> {
        None
    }
}

/// Reads a map whose fields are known, each at most once.
pub(crate) struct InMap<R>(pub(crate) R);

impl<'de, R: ReadFields> DeserializeSeed<'de> for InMap<R> {
    type Value = R::Output;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Output, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, R: ReadFields> Visitor<'de> for InMap<R> {
    type Value = R::Output;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, what, fields) = self.0.about();
        write!(f, "{of}{what} as a map of {}", list(fields))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<R::Output, E> {
        let Some(read) = self.0.text(text) else {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        };
        read.map_err(|why| E::custom(format_args!("{}{why}", self.0.about().0)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<R::Output, A::Error> {
        let Self(mut reader) = self;
        let mut seen = HashSet::new();
        while let Some(field) = map.next_key::<String>()? {
            if seen.contains(&field) {
                let twice = format!("{}`{field}` is given twice", reader.about().0);
                return Err(wrong(&mut map, &twice));
            }
            if !reader.read(&field, &mut map)? {
                let (of, what, fields) = reader.about();
                let unknown = format!("{of}{}", not_a_field(&field, &what, fields));
                return Err(wrong(&mut map, &unknown));
            }
            seen.insert(field);
        }
        let of = reader.about().0.to_owned();
        (reader.finish()).map_err(|why| A::Error::custom(format_args!("{of}{why}")))
    }
}

pub(super) fn not_a_field(field: &str, of: &str, fields: &[&str]) -> String {
    format!(
        "`{field}` is not a field of {of}, which has {}",
        list(fields)
    )
}

/// The names of fields, for messages.
fn list(fields: &[&str]) -> String {
    format!("`{}`", fields.join("`, `"))
}

/// The value of this field. `of` says what the map belongs to, for messages.
pub(crate) fn value<'de, T: Value, A: MapAccess<'de>>(
    (of, field): (&str, &str),
    map: &mut A,
) -> Result<Option<T>, A::Error> {
    map.next_value_seed(InField::new(of, field)).map(Some)
}

/// The error about a field whose value was not read, with that value's line and column.
pub(crate) fn wrong<'de, A: MapAccess<'de>>(map: &mut A, why: &str) -> A::Error {
    struct Wrong<'a>(&'a str);

    impl<'de> DeserializeSeed<'de> for Wrong<'_> {
        type Value = Infallible;

        fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<Infallible, D::Error> {
            Err(D::Error::custom(self.0))
        }
    }

    match map.next_value_seed(Wrong(why)) {
        Err(error) => error,
        Ok(never) => match never {},
    }
}
