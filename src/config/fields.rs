use std::{fmt, marker::PhantomData, time::Duration};

use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use crate::{error::ConfigError, quota::Quota};

use super::value::{InField, Value};

/// An algorithm that can be built of fields.
pub(super) trait Rule: Sized {
    /// What it is called in the field `algorithm`.
    const NAME: &'static str;

    /// The fields that it has beside `algorithm` and `name`.
    const FIELDS: &'static [&'static str];

    /// The rule of these fields, of which there are no others than its own.
    fn of(fields: &Fields) -> Result<Self, Wrong>;

    fn named(self, name: &str) -> Result<Self, ConfigError>;
}

/// Every field that any algorithm has.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) quota: Option<Quota>,
    pub(super) burst: Option<u64>,
    pub(super) capacity: Option<u64>,
    pub(super) precision: Option<Duration>,
    pub(super) strict: Option<bool>,
    pub(super) from_first_request: Option<bool>,
    pub(super) interval: Option<Duration>,
    algorithm: Option<String>,
    name: Option<String>,
}

impl Fields {
    /// Reads the value of this field, or says that there is no such field, and leaves the value to
    /// be read.
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
        return Err(de::Error::custom(format_args!(
            "`{field}` stands here twice"
        )));
    }
    *slot = Some(map.next_value_seed(InField(field, PhantomData))?);
    Ok(())
}

/// Why no rule can be built, in words.
pub(super) struct Wrong(String);

/// The field's value, without which there is no such rule.
pub(super) fn required<R: Rule, T: Value + Copy>(
    value: Option<T>,
    field: &str,
) -> Result<T, Wrong> {
    value.ok_or_else(|| Wrong(format!("a {} needs `{field}`, {}", R::NAME, T::WHAT)))
}

/// Names the field whose value was refused.
pub(super) trait Blames<T> {
    fn blames(self, field: &str) -> Result<T, Wrong>;
}

impl<T> Blames<T> for Result<T, ConfigError> {
    fn blames(self, field: &str) -> Result<T, Wrong> {
        self.map_err(|error| Wrong(format!("`{field}`: {error}")))
    }
}

/// Reads the map that a rule is written as.
pub(super) struct OfMap<R>(pub(super) PhantomData<R>);

impl<'de, R: Rule> Visitor<'de> for OfMap<R> {
    type Value = R;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} as a map of {}", R::NAME, Allowed(R::FIELDS))
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
        // Not at once: if another algorithm is named further down, that is the mistake.
        if let Some(field) = unknown {
            return Err(de::Error::custom(format_args!(
                "`{field}` is not a field of a {}, which has {}",
                R::NAME,
                Allowed(R::FIELDS)
            )));
        }
        let rule = R::of(&fields).and_then(|rule| match &fields.name {
            Some(name) => rule.named(name).blames("name"),
            None => Ok(rule),
        });
        rule.map_err(|Wrong(why)| de::Error::custom(why))
    }
}

/// The fields that a rule may have.
struct Allowed(&'static [&'static str]);

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`algorithm`, ")?;
        for field in self.0 {
            write!(f, "`{field}`, ")?;
        }
        f.write_str("`name`")
    }
}
