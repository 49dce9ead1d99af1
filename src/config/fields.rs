use std::{fmt, marker::PhantomData, time::Duration};

use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use crate::{error::ConfigError, quota::Quota};

use super::value::{InField, Value};

/// An algorithm that can be built of fields.
pub(super) trait FromFields: Sized {
    /// What it is called in the field `algorithm`.
    const NAME: &'static str;

    /// The fields that it has beside `algorithm` and `name`.
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
    algorithm: Option<String>,
    name: Option<String>,
}

impl Fields {
    /// Reads the value of this field. `false`: there is no such field, and its value is not read.
    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        match field {
            "algorithm" => once(&mut self.algorithm, field, map)?,
            "quota" => once(&mut self.quota, field, map)?,
            "burst" => once(&mut self.burst, field, map)?,
            "capacity" => once(&mut self.capacity, field, map)?,
            "precision" => once(&mut self.precision, field, map)?,
            "strict" => once(&mut self.strict, field, map)?,
            "from-first-request" => once(&mut self.from_first_request, field, map)?,
            "interval" => once(&mut self.interval, field, map)?,
            "wait-at-most" => once(&mut self.wait_at_most, field, map)?,
            "requests" => once(&mut self.requests, field, map)?,
            "held-at-most" => once(&mut self.held_at_most, field, map)?,
            "name" => once(&mut self.name, field, map)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn once<'de, T: Value, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    field: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(de::Error::custom(format_args!("`{field}` is given twice")));
    }
    *slot = Some(map.next_value_seed(InField(field, PhantomData))?);
    Ok(())
}

/// Why the algorithm cannot be built.
pub(super) struct Reason(String);

/// The value of a field that must be there.
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
            if !is_own || !fields.read(&field, &mut map)? {
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
struct FieldList(&'static [&'static str]);

impl fmt::Display for FieldList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`algorithm`, ")?;
        for field in self.0 {
            write!(f, "`{field}`, ")?;
        }
        f.write_str("`name`")
    }
}
