//! What stands in a file of rules.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize,
    de::{
        Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};

use crate::config::{AnyAlgorithm, Distinct};

use super::key_source::OnMissing;

mod build;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a file of rules as a map")]
pub(super) struct File {
    #[serde(default, rename = "match")]
    applies: Applies,
    #[serde(default)]
    unmatched: Unmatched,
    proxies: Option<Proxies>,
    #[serde(default)]
    rules: Vec<RuleFields>,
}

/// Which of the matching rules apply to a request.
#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Applies {
    #[default]
    First,
    All,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Unmatched {
    #[default]
    Pass,
    Refuse,
}

/// The trusted proxies, and the header in which they name the client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "`proxies` as a map")]
struct Proxies {
    header: String,
    #[serde(default)]
    trusted: Each<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a rule as a map of its fields")]
struct RuleFields {
    name: String,
    routes: Option<Each<TextOr<String, RouteAndCost>>>,
    key: Each<TextOr<NamedKey, KeyFields>>,
    cost: Option<u32>,
    #[serde(default)]
    shadow: bool,
    limit: Each<AnyAlgorithm>,
    plans: Option<PlansFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteAndCost {
    route: String,
    cost: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum NamedKey {
    Everyone,
    Address,
    Client,
    Route,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFields {
    header: Option<String>,
    extension: Option<String>,
    #[serde(default)]
    missing: OnMissing,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "`plans` as a map of `by` and `limits`"
)]
struct PlansFields {
    by: PlanFields,
    /// For each plan, by its value.
    limits: Distinct<Each<AnyAlgorithm>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFields {
    header: Option<String>,
    extension: Option<String>,
}

/// A list, or a single one without a list.
#[derive(Default)]
struct Each<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EachVisitor(PhantomData))
    }
}

struct EachVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EachVisitor<T> {
    type Value = Each<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a map, or a list of these")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Each<T>, E> {
        T::deserialize(text.into_deserializer()).map(|one| Each(vec![one]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Each<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|one| Each(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Each<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Each)
    }
}

enum TextOr<T, M> {
    Text(T),
    Map(M),
}

impl<'de, T: Deserialize<'de>, M: Deserialize<'de>> Deserialize<'de> for TextOr<T, M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrVisitor(PhantomData))
    }
}

struct TextOrVisitor<T, M>(PhantomData<(T, M)>);

impl<'de, T: Deserialize<'de>, M: Deserialize<'de>> Visitor<'de> for TextOrVisitor<T, M> {
    type Value = TextOr<T, M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a map")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(TextOr::Text)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Map)
    }
}
