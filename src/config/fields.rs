use std::{fmt, marker::PhantomData, time::Duration};

use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use crate::{error::ConfigError, quota::Quota};

use super::value::{InField, Value};

/// An algorithm that can be built of fields.
pub(super) trait FromFields: Sized {
    /// Its name in the field `algorithm`.
    const NAME: &'static str;

    /// Its fields besides `algorithm` and `name`.
    const FIELDS: &'static [&'static str];

    /// Builds the algorithm from its fields; other fields are not set.
    fn build(fields: &Fields) -> Result<Self, Reason>;

    fn named(self, name: &str) -> Result<Self, ConfigError>;
}

/// All fields of all algorithms.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) quota: Option<Quota>,
    pub(super) burst: Option<u64>,
    pub(super) capacity: Option<u64>,
    pub(super) precision: Option<Duration>,
    pub(super) strict: Option<bool>,
    pub(super) from_first_request: Option<bool>,
    pub(super) interval: Option<Duration>,
    pub(super) wait_at_most: Option<Duration>,
    pub(super) requests: Option<u64>,
    pub(super) held_at_most: Option<Duration>,
    pub(super) algorithm: Option<String>,
    pub(super) name: Option<String>,
}

impl Fields {
    /// Reads the value of this field. Returns `false`, and reads nothing, if there is no such
    /// field. `of` says what the map belongs to, for messages.
    pub(super) fn read<'de, A: MapAccess<'de>>(
        &mut self,
        (of, field): (&str, &str),
        map: &mut A,
    ) -> Result<bool, A::Error> {
        match field {
            "algorithm" => once(&mut self.algorithm, (of, field), map)?,
            "quota" => once(&mut self.quota, (of, field), map)?,
            "burst" => once(&mut self.burst, (of, field), map)?,
            "capacity" => once(&mut self.capacity, (of, field), map)?,
            "precision" => once(&mut self.precision, (of, field), map)?,
            "strict" => once(&mut self.strict, (of, field), map)?,
            "from-first-request" => once(&mut self.from_first_request, (of, field), map)?,
            "interval" => once(&mut self.interval, (of, field), map)?,
            "wait-at-most" => once(&mut self.wait_at_most, (of, field), map)?,
            "requests" => once(&mut self.requests, (of, field), map)?,
            "held-at-most" => once(&mut self.held_at_most, (of, field), map)?,
            "name" => once(&mut self.name, (of, field), map)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads a field, which must not be there twice.
pub(crate) fn once<'de, T: Value, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    (of, field): (&str, &str),
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(de::Error::custom(format_args!(
            "{of}`{field}` is given twice"
        )));
    }
    *slot = Some(map.next_value_seed(InField::new(of, field))?);
    Ok(())
}

/// The error about a field whose value was not read, with that value's line and column.
#[cfg(feature = "rules")]
pub(crate) fn wrong<'de, A: MapAccess<'de>>(map: &mut A, why: &str) -> A::Error {
    struct Wrong<'a>(&'a str);

    impl<'de> de::DeserializeSeed<'de> for Wrong<'_> {
        type Value = std::convert::Infallible;

        fn deserialize<D: de::Deserializer<'de>>(self, _: D) -> Result<Self::Value, D::Error> {
            Err(de::Error::custom(self.0))
        }
    }

    match map.next_value_seed(Wrong(why)) {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

/// The reason why an algorithm cannot be built.
pub(super) struct Reason(pub(super) String);

/// The value of a required field.
pub(super) fn required<R: FromFields, T: Value + Copy>(
    value: Option<T>,
    field: &str,
) -> Result<T, Reason> {
    value.ok_or_else(|| Reason(format!("a {} needs `{field}`, {}", R::NAME, T::EXPECTED)))
}

/// Puts the name of the field into the error.
pub(super) trait FieldError<T> {
    fn in_field(self, field: &str) -> Result<T, Reason>;
}

impl<T> FieldError<T> for Result<T, ConfigError> {
    fn in_field(self, field: &str) -> Result<T, Reason> {
        self.map_err(|error| Reason(format!("`{field}`: {error}")))
    }
}

/// Reads an algorithm from a map.
pub(super) struct MapVisitor<R>(pub(super) PhantomData<R>);

impl<'de, R: FromFields> Visitor<'de> for MapVisitor<R> {
    type Value = R;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} as a map of {}", R::NAME, FieldList(R::FIELDS))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<R, A::Error> {
        let (mut fields, mut unknown) = (Fields::default(), None);
        while let Some(field) = map.next_key::<String>()? {
            let is_own = ["algorithm", "name"].contains(&&*field) || R::FIELDS.contains(&&*field);
            if !is_own || !fields.read(("", &field), &mut map)? {
                map.next_value::<IgnoredAny>()?;
                unknown.get_or_insert(field);
            } else if let Some(wrong) = fields.algorithm.as_ref().filter(|name| *name != R::NAME) {
                return Err(de::Error::custom(format_args!(
                    "`algorithm` is {wrong:?} where only {:?} is allowed",
                    R::NAME
                )));
            }
        }
        // Checked last: if the map names another algorithm, that is the mistake to report.
        if let Some(field) = unknown {
            return Err(de::Error::custom(format_args!(
                "`{field}` is not a field of a {}, which has {}",
                R::NAME,
                FieldList(R::FIELDS)
            )));
        }
        let rule = R::build(&fields).and_then(|rule| match &fields.name {
            Some(name) => rule.named(name).in_field("name"),
            None => Ok(rule),
        });
        rule.map_err(|Reason(why)| de::Error::custom(why))
    }
}

/// The fields of an algorithm, as a list for messages.
pub(super) struct FieldList(pub(super) &'static [&'static str]);

impl fmt::Display for FieldList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`algorithm`, ")?;
        for field in self.0 {
            write!(f, "`{field}`, ")?;
        }
        f.write_str("`name`")
    }
}
