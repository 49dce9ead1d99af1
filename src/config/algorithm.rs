//! Reads an algorithm from a map of its fields.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};

use crate::algorithm::{
    InFlight,
    described::{Described, Field, Given, Kind},
    every_rule,
};

use super::value::InField;

/// One of the algorithms that a map may be of.
pub(super) struct Choice<A: 'static> {
    name: &'static str,
    fields: fn() -> Vec<Field>,
    build: fn(&Given) -> Result<A, String>,
}

impl<A> Choice<A> {
    pub(super) const fn of<R: Described>(build: fn(&Given) -> Result<A, String>) -> Self {
        let (name, fields) = (R::NAME, R::fields);
        Self {
            name,
            fields,
            build,
        }
    }

    /// All fields that may be there.
    fn fields(&self) -> Vec<Field> {
        let text = |name| Field::optional(name, Kind::TEXT, "", "");
        let own = (self.fields)();
        [vec![text("algorithm")], own, vec![text("name")]].concat()
    }

    /// A field that is given and that it does not have.
    fn does_not_have<'a>(&self, given: &'a Given) -> Option<&'a str> {
        let fields = self.fields();
        let mut names = given.0.iter().map(|(name, _)| &**name);
        names.find(|name| !fields.iter().any(|field| field.name == *name))
    }

    fn build(&self, given: &Given) -> Result<A, String> {
        if let Some(field) = self.does_not_have(given) {
            let fields: Vec<_> = self.fields().iter().map(|field| field.name).collect();
            let (of, fields) = (self.name, fields.join("`, `"));
            return Err(format!(
                "`{field}` is not a field of a {of}, which has `{fields}`"
            ));
        }
        let is_missing = |field: &&Field| field.default.is_none() && !given.has(field.name);
        match self.fields().iter().find(is_missing) {
            Some(Field { name, kind, .. }) => {
                Err(format!("a {} needs `{name}`, {}", self.name, kind.expected))
            }
            None => (self.build)(given),
        }
    }
}

/// Reads an algorithm of one of these, and gives the fields back with it.
pub(super) struct AlgorithmMap<A: 'static>(pub(super) &'static [Choice<A>]);

impl<A> AlgorithmMap<A> {
    /// What the fields name. Of two with the same name the one that has all of the fields, if one
    /// has.
    fn choice(&self, given: &Given) -> Result<&'static Choice<A>, String> {
        let all = || {
            let mut names: Vec<_> = self.0.iter().map(|choice| choice.name).collect();
            names.dedup();
            format!("\"{}\"", names.join("\", \""))
        };
        let Some(name) = given.get::<String>("algorithm") else {
            return match self.0 {
                [only] => Ok(only),
                _ => Err(format!("the limit needs `algorithm`, one of {}", all())),
            };
        };
        let mut named = self.0.iter().filter(|choice| choice.name == name);
        let fits = named
            .clone()
            .find(|choice| choice.does_not_have(given).is_none());
        fits.or_else(|| named.next()).ok_or_else(|| {
            let allowed = match self.0 {
                [only] => format!(" where only {:?} is allowed", only.name),
                _ if name == InFlight::NAME => ", which needs a layer of its own".to_owned(),
                _ => format!(", and not one of {}", all()),
            };
            format!("`algorithm` is {name:?}{allowed}")
        })
    }
}

impl<'de, A> DeserializeSeed<'de> for AlgorithmMap<A> {
    type Value = (A, Given);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, A> Visitor<'de> for AlgorithmMap<A> {
    type Value = (A, Given);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [only] => write!(f, "a {} as a map of its fields", only.name),
            _ => f.write_str("an algorithm as a map of its fields"),
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let known: Vec<_> = self.0.iter().flat_map(Choice::fields).collect();
        let mut given = Given::default();
        while let Some(field) = map.next_key::<String>()? {
            if given.has(&field) {
                return Err(M::Error::custom(format_args!("`{field}` is given twice")));
            }
            let value = match known.iter().find(|known| known.name == field) {
                Some(field) => map.next_value_seed(InField(field))?,
                // A mistake, but not the one to report if the algorithm is another.
                None => map.next_value::<IgnoredAny>().map(|_| String::new())?,
            };
            given.0.push((field, value));
        }
        let built = self.choice(&given).and_then(|choice| choice.build(&given));
        match built {
            Ok(algorithm) => Ok((algorithm, given)),
            Err(why) => Err(M::Error::custom(why)),
        }
    }
}

macro_rules! deserialize {
    ($($can:ident $Kind:ident: $Rule:ty),+ $(,)?) => {$(
        /// From a map of its fields, as the chapter [Limits from a
        /// file](crate::docs::limits_from_a_file) lists them; `algorithm` and `name` may be left
        /// out.
        ///
        /// An unknown field, a missing one or one with a wrong value is an error that names it.
        impl<'de> Deserialize<'de> for $Rule {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read = AlgorithmMap(const { &[Choice::of::<$Rule>(<$Rule>::build)] });
                read.deserialize(deserializer).map(|(rule, _)| rule)
            }
        }
    )+};
}

every_rule!(deserialize);
deserialize!(plain InFlight: InFlight);
