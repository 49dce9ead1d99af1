//! Reads an algorithm from a map of its fields.

use std::{collections::HashSet, time::Duration};

use serde::de::{IgnoredAny, MapAccess};

use crate::{algorithm::InFlight, error::ConfigError, quota::Quota};

use super::{
    fields::{ReadFields, not_a_field, value},
    value::Value,
};

/// An algorithm that can be built of fields.
pub(super) trait FromFields: Sized {
    /// Its name in the field `algorithm`.
    const NAME: &'static str;

    /// Its fields.
    const FIELDS: &'static [&'static str];

    /// Builds the algorithm from its fields, without its name; other fields are not set.
    fn unnamed(fields: &Fields) -> Result<Self, String>;

    fn build(fields: &Fields) -> Result<Self, String>;
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
    fn read<'de, A: MapAccess<'de>>(
        &mut self,
        named: (&str, &str),
        map: &mut A,
    ) -> Result<(), A::Error> {
        match named.1 {
            "algorithm" => self.algorithm = value(named, map)?,
            "quota" => self.quota = value(named, map)?,
            "burst" => self.burst = value(named, map)?,
            "capacity" => self.capacity = value(named, map)?,
            "precision" => self.precision = value(named, map)?,
            "strict" => self.strict = value(named, map)?,
            "from-first-request" => self.from_first_request = value(named, map)?,
            "interval" => self.interval = value(named, map)?,
            "wait-at-most" => self.wait_at_most = value(named, map)?,
            "requests" => self.requests = value(named, map)?,
            "held-at-most" => self.held_at_most = value(named, map)?,
            _ => self.name = value(named, map)?,
        }
        Ok(())
    }
}

/// One of the algorithms that a map may be of.
pub(super) struct Kind<A: 'static> {
    pub(super) name: &'static str,
    pub(super) fields: &'static [&'static str],
    pub(super) build: fn(&Fields) -> Result<A, String>,
}

/// Reads an algorithm of one of these kinds, and its name if it has one.
pub(super) struct AlgorithmFields<'a, A: 'static> {
    of: &'a str,
    kinds: &'static [Kind<A>],
    fields: Fields,
    names: Vec<String>,
}

impl<'a, A> AlgorithmFields<'a, A> {
    /// `of` says what the map belongs to, for messages.
    pub(super) fn new(of: &'a str, kinds: &'static [Kind<A>]) -> Self {
        Self {
            of,
            kinds,
            fields: Fields::default(),
            names: Vec::new(),
        }
    }

    /// The kind that the fields name. Of two with the same name, one has callers that wait.
    fn kind(&self) -> Result<&'static Kind<A>, String> {
        let all = || {
            let mut names: Vec<_> = self.kinds.iter().map(|kind| kind.name).collect();
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(*name));
            format!("\"{}\"", names.join("\", \""))
        };
        let Some(name) = self.fields.algorithm.as_deref() else {
            return match self.kinds {
                [only] => Ok(only),
                _ => Err(format!("the limit needs `algorithm`, one of {}", all())),
            };
        };
        let named = || self.kinds.iter().filter(|kind| kind.name == name);
        let wait = self.fields.wait_at_most.is_some();
        let kind = named().find(|kind| kind.fields.contains(&"wait-at-most") == wait);
        // Where nobody can wait, the field is the mistake.
        kind.or_else(|| named().next()).ok_or_else(|| {
            let allowed = match self.kinds {
                [only] => format!(" where only {:?} is allowed", only.name),
                _ if name == InFlight::NAME => ", which needs a layer of its own".to_owned(),
                _ => format!(", and not one of {}", all()),
            };
            format!("`algorithm` is {name:?}{allowed}")
        })
    }
}

impl<A> ReadFields for AlgorithmFields<'_, A> {
    type Output = (A, Option<String>);

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        match self.kinds {
            [only] => (self.of, format!("a {}", only.name), only.fields),
            _ => (self.of, "an algorithm".to_owned(), &["algorithm", "name"]),
        }
    }

    /// What no kind has is a mistake, but not the one to report if the algorithm is another.
    fn read<'de, M: MapAccess<'de>>(&mut self, field: &str, map: &mut M) -> Result<bool, M::Error> {
        match self.kinds.iter().any(|kind| kind.fields.contains(&field)) {
            true => self.fields.read((self.of, field), map)?,
            false => drop(map.next_value::<IgnoredAny>()?),
        }
        self.names.push(field.to_owned());
        Ok(true)
    }

    fn finish(self) -> Result<Self::Output, String> {
        let Kind {
            name,
            fields,
            build,
        } = self.kind()?;
        match (self.names.iter()).find(|field| !fields.contains(&field.as_str())) {
            Some(field) => Err(not_a_field(field, &format!("a {name}"), fields)),
            None => Ok((build(&self.fields)?, self.fields.name)),
        }
    }
}

/// The value of a required field.
pub(super) fn required<R: FromFields, T: Value + Copy>(
    value: Option<T>,
    field: &str,
) -> Result<T, String> {
    value.ok_or_else(|| format!("a {} needs `{field}`, {}", R::NAME, T::EXPECTED))
}

/// Puts the name of the field into the error.
pub(super) fn in_field(field: &str) -> impl Fn(ConfigError) -> String {
    move |error| format!("`{field}`: {error}")
}
