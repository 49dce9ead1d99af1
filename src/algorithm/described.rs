//! What a person who writes an algorithm down has to know of it: its name, its fields, and what is
//! made of them. Files are read by it, and the page has it as its form.

use std::{collections::BTreeMap, fmt::Display, str::FromStr, time::Duration};

use crate::{error::ConfigError, quota::span_of_text};

use super::setters::Named;

/// An algorithm that is made from named fields.
pub trait Described: Named {
    /// Its name in the field `algorithm`.
    const NAME: &'static str;

    /// Its fields beside `algorithm` and `name`: a quota, if nothing else is said. A field is
    /// called as the method or the argument of the constructor.
    fn fields() -> Vec<Field> {
        vec![QUOTA]
    }

    /// Makes it from these fields.
    ///
    /// # Errors
    ///
    /// What is wrong with a field, which it names.
    fn build(given: &Given) -> Result<Self, String>;

    /// The same, with the name that is given.
    ///
    /// # Errors
    ///
    /// What is wrong with a field, which it names.
    fn read(given: &Given) -> Result<Self, String> {
        let rule = Self::build(given)?;
        given.set(rule, "name", |rule, name: String| rule.try_named(name))
    }
}

/// A field of an algorithm.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What stands in it.
    pub kind: Kind,
    /// A value, as the docs show it.
    pub example: &'static str,
    /// What is the case without it; `None` if there is no algorithm without it.
    pub default: Option<&'static str>,
}

impl Field {
    /// A field without which there is no algorithm.
    pub const fn new(name: &'static str, kind: Kind, example: &'static str) -> Self {
        Self {
            name,
            kind,
            example,
            default: None,
        }
    }

    /// The same, if it may be left out, and what is the case then.
    pub const fn with_default(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}

/// What stands in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A quota.
    Quota,
    /// A span of time.
    Span,
    /// The span of time for one request: half as long for twice as many.
    Interval,
    /// How much is let through at once: a whole number.
    AtOnce,
    /// True or false.
    Flag,
}

impl Kind {
    /// The expected value, in words.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Quota => "a quota such as \"20/s\"",
            Self::Span | Self::Interval => "a span of time such as \"100ms\"",
            Self::AtOnce => "a whole number",
            Self::Flag => "true or false",
        }
    }
}

/// The quota that most algorithms have.
pub const QUOTA: Field = Field::new("quota", Kind::Quota, "20/s");

/// The most at once, of a bucket that calls it so.
pub(super) const fn burst(name: &'static str) -> Field {
    Field::new(name, Kind::AtOnce, "40").with_default("the quota's units")
}

/// The fields of an algorithm that somebody has written down.
#[derive(Debug, Clone)]
pub struct Given {
    /// What the algorithm is called there.
    pub of: &'static str,
    /// The fields that it has.
    pub fields: Vec<Field>,
    /// What stands in each field that is given, `None` if it is no text, number or flag.
    pub texts: BTreeMap<String, Option<String>>,
}

impl Given {
    /// The value of a field, if it is given.
    pub(super) fn get<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.texts.get(name) else {
            return Ok(None);
        };
        let kind = self.kind(name);
        let expected = kind.expected();
        let text = text.as_ref();
        let text = text.ok_or_else(|| format!("`{name}` must be {expected}"))?;
        text.parse().map(Some).map_err(|why| match kind {
            Kind::AtOnce | Kind::Flag => format!("`{name}` is {text:?}, but must be {expected}"),
            _ => in_field(name, &why),
        })
    }

    /// The value of a field that is needed.
    pub(super) fn needed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, String> {
        self.get(name)?.ok_or_else(|| {
            let (of, expected) = (self.of, self.kind(name).expected());
            format!("a {of} needs `{name}`, {expected}")
        })
    }

    fn kind(&self, name: &str) -> Kind {
        let field = self.fields.iter().find(|field| field.name == name);
        field.map_or(Kind::Text, |field| field.kind)
    }

    /// What is made of this needed field.
    pub(super) fn make<T: FromStr<Err: Display>, R>(
        &self,
        field: &str,
        make: impl FnOnce(T) -> Result<R, ConfigError>,
    ) -> Result<R, String> {
        make(self.needed(field)?).map_err(|error| in_field(field, &error))
    }

    /// The same rule with what an optional field says.
    pub(super) fn set<T: FromStr<Err: Display>, R>(
        &self,
        rule: R,
        field: &str,
        set: impl FnOnce(R, T) -> Result<R, ConfigError>,
    ) -> Result<R, String> {
        match self.get(field)? {
            Some(value) => set(rule, value).map_err(|error| in_field(field, &error)),
            None => Ok(rule),
        }
    }
}

/// The error about the value of a field.
pub(super) fn in_field(field: &str, error: &impl Display) -> String {
    format!("`{field}`: {error}")
}

/// A span of time that is written as a text such as `100ms`.
pub(super) struct SpanText(pub(super) Duration);

impl FromStr for SpanText {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        span_of_text(text).map(Self)
    }
}
