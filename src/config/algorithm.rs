//! Reads an algorithm from a map of its fields.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny},
};

use crate::algorithm::{
    InFlight,
    described::{Described, Field, Given, Kind},
};

use super::distinct::Distinct;

/// One of the algorithms that a map may be of.
pub(super) struct Choice<A> {
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
        let text = |name| Field::new(name, Kind::Text, "").with_default("");
        let own = (self.fields)();
        [vec![text("algorithm")], own, vec![text("name")]].concat()
    }

    /// A field that is given and that it does not have.
    fn does_not_have<'a>(&self, given: &'a Map) -> Option<&'a str> {
        let fields = self.fields();
        let mut names = given.keys().map(String::as_str);
        names.find(|name| !fields.iter().any(|field| field.name == *name))
    }

    fn build(&self, map: Map) -> Result<A, String> {
        let (of, fields) = (self.name, self.fields());
        if let Some(field) = self.does_not_have(&map) {
            let fields: Vec<_> = fields.iter().map(|field| field.name).collect();
            let fields = fields.join("`, `");
            return Err(format!(
                "`{field}` is not a field of a {of}, which has `{fields}`"
            ));
        }
        let texts = map.into_iter().map(|(name, value)| (name, value.text()));
        let texts = texts.collect();
        (self.build)(&Given { of, fields, texts })
    }
}

/// The fields that are given.
type Map = BTreeMap<String, Value>;

/// What stands in a field, before anybody knows what is expected there. Some formats have nothing
/// but texts, so that a number may be written as one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Flag(bool),
    Number(u64),
    Text(String),
    Other(IgnoredAny),
}

impl Value {
    fn text(&self) -> Option<String> {
        match self {
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Other(_) => None,
        }
    }
}

/// Reads an algorithm of one of these.
pub(super) fn read<'de, A, D: Deserializer<'de>>(
    deserializer: D,
    choices: &[Choice<A>],
) -> Result<A, D::Error> {
    let Distinct(map) = Distinct::deserialize(deserializer)?;
    let rule = choose(choices, &map).and_then(|choice| choice.build(map));
    rule.map_err(D::Error::custom)
}

/// What the fields name. Of two with the same name the one that has all of the fields, if one has.
fn choose<'a, A>(choices: &'a [Choice<A>], map: &Map) -> Result<&'a Choice<A>, String> {
    let all = || {
        let mut names: Vec<_> = choices.iter().map(|choice| choice.name).collect();
        names.dedup();
        format!("\"{}\"", names.join("\", \""))
    };
    let Some(name) = map.get("algorithm") else {
        return match choices {
            [only] => Ok(only),
            _ => Err(format!("the limit needs `algorithm`, one of {}", all())),
        };
    };
    let name = name.text().ok_or("`algorithm` must be a text")?;
    let mut named = choices.iter().filter(|choice| choice.name == name);
    let fits = |choice: &&Choice<A>| choice.does_not_have(map).is_none();
    let fitting = named.clone().find(fits);
    fitting.or_else(|| named.next()).ok_or_else(|| {
        let allowed = match choices {
            [only] => format!(" where only {:?} is allowed", only.name),
            _ if name == InFlight::NAME => ", which needs a layer of its own".to_owned(),
            _ => format!(", and not one of {}", all()),
        };
        format!("`algorithm` is {name:?}{allowed}")
    })
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
                let only = Choice::of::<$Rule>(<$Rule>::read);
                read(deserializer, &[only])
            }
        }
    )+};
}

every_rule!(deserialize);
deserialize!(plain InFlight: InFlight);
