//! Reads a part of the file into a plain tree, and reports mistakes where they stand, so that the
//! format adds the line.

use std::{fmt, marker::PhantomData};

use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor, value::MapAccessDeserializer,
};

use crate::{
    algorithm::described::Kind,
    config::{AnyAlgorithm, InField, any_algorithm},
};

/// What may stand in a place.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Value(Kind),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    Map(Table),
    /// A text, or a map of these fields.
    TextOr(Kind, Table),
    /// A list of these, or a single one without a list.
    Each(&'static Shape),
    /// One for each plan, by its value.
    EachPlan(&'static Shape),
    /// An algorithm.
    Limit,
}

/// The fields that a map may have.
pub(super) type Table = &'static [(&'static str, Shape)];

/// What stands there.
pub(super) enum Tree {
    Text(String),
    Map(Map),
    List(Vec<Tree>),
    /// An algorithm, and its name if it has one.
    Limit(Box<AnyAlgorithm>, Option<String>),
}

/// The fields of a map that are given.
#[derive(Default)]
pub(super) struct Map(pub(super) Vec<(String, Tree)>);

impl Map {
    /// Reads one of these fields, and reports in its place what `then` finds wrong with it.
    pub(super) fn read<'de, A: MapAccess<'de>>(
        &mut self,
        of: &str,
        table: Table,
        field: String,
        map: &mut A,
        then: impl FnOnce(&Tree) -> Result<(), String>,
    ) -> Result<(), A::Error> {
        let known = table.iter().find(|(name, _)| *name == field);
        let wrong = match known {
            _ if self.0.iter().any(|(name, _)| *name == field) => {
                format!("{of}`{field}` is given twice")
            }
            Some(&(field, shape)) => {
                let read = map.next_value_seed(Then(Place { of, field, shape }, then))?;
                self.0.push((field.to_owned(), read));
                return Ok(());
            }
            None => {
                let fields: Vec<_> = table.iter().map(|(name, _)| *name).collect();
                format!(
                    "{of}`{field}` is none of the fields `{}`",
                    fields.join("`, `")
                )
            }
        };
        let (any, wrong) = (PhantomData::<IgnoredAny>, |_: &_| Err(wrong));
        map.next_value_seed(Then(any, wrong)).map(drop)
    }

    pub(super) fn get(&self, field: &str) -> Option<&Tree> {
        let given = self.0.iter().find(|(name, _)| name == field);
        given.map(|(_, tree)| tree)
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.text()
    }

    pub(super) fn map(&self, field: &str) -> Option<&Self> {
        match self.get(field)? {
            Tree::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(super) fn list(&self, field: &str) -> Option<&[Tree]> {
        self.get(field)?.list()
    }
}

impl Tree {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

/// Reads what stands in a field.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// What the field belongs to, such as `rule 3: `.
    pub(super) of: &'a str,
    pub(super) field: &'a str,
    pub(super) shape: Shape,
}

impl<'a> Place<'a> {
    fn value(self, kind: Kind) -> InField<'a> {
        let Self { of, field, .. } = self;
        InField { of, field, kind }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        match self.shape {
            Shape::Value(kind) => self.value(kind).deserialize(deserializer).map(Tree::Text),
            Shape::Limit => {
                let (algorithm, given) = any_algorithm(self.of).deserialize(deserializer)?;
                Ok(Tree::Limit(algorithm.into(), given.get("name")))
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shape = self.shape;
        while let Shape::Each(one) = shape {
            shape = *one;
        }
        let expected = match shape {
            Shape::Value(kind) | Shape::TextOr(kind, _) => kind.expected,
            Shape::OneOf(_) => Kind::TEXT.expected,
            Shape::Limit => "an algorithm as a map of its fields, or a list of them",
            _ => "a map",
        };
        write!(f, "{}`{}` to be {expected}", self.of, self.field)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Tree, E> {
        match self.shape {
            Shape::TextOr(kind, _) => self.value(kind).visit_str(text).map(Tree::Text),
            Shape::OneOf(texts) if texts.contains(&text) => Ok(Tree::Text(text.to_owned())),
            Shape::OneOf(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| format!("{text:?}")).collect();
                let (of, field, texts) = (self.of, self.field, texts.join(" or "));
                Err(E::custom(format_args!(
                    "{of}`{field}` is {text:?}, but must be {texts}"
                )))
            }
            Shape::Each(&shape) => {
                let one = Place { shape, ..self }.deserialize(text.into_deserializer())?;
                Ok(Tree::List(vec![one]))
            }
            _ => Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let Shape::Each(&shape) = self.shape else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        let mut each = Vec::new();
        while let Some(one) = list.next_element_seed(Place { shape, ..self })? {
            each.push(one);
        }
        Ok(Tree::List(each))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        if let Shape::Each(&shape) = self.shape {
            let one = Place { shape, ..self }.deserialize(MapAccessDeserializer::new(map))?;
            return Ok(Tree::List(vec![one]));
        }
        let mut given = Map::default();
        match self.shape {
            Shape::Map(table) | Shape::TextOr(_, table) => {
                while let Some(field) = map.next_key::<String>()? {
                    given.read(self.of, table, field, &mut map, |_| Ok(()))?;
                }
            }
            Shape::EachPlan(&shape) => {
                while let Some(plan) = map.next_key::<String>()? {
                    let of = &format!("{}plan `{plan}`: ", self.of);
                    let read = map.next_value_seed(Place { of, shape, ..self })?;
                    given.0.push((plan, read));
                }
            }
            _ => return Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
        Ok(Tree::Map(given))
    }
}

/// Reads a value, and reports in the same place what the function finds wrong with it.
struct Then<S, F>(S, F);

impl<'de, S, F> DeserializeSeed<'de> for Then<S, F>
where
    S: DeserializeSeed<'de>,
    F: FnOnce(&S::Value) -> Result<(), String>,
{
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let read = self.0.deserialize(deserializer)?;
        match (self.1)(&read) {
            Ok(()) => Ok(read),
            Err(wrong) => Err(D::Error::custom(wrong)),
        }
    }
}
