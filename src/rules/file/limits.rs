//! Reads the limits of a rule, and its plans.

use std::{collections::HashMap, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};

use crate::config::{AnyOf, Read, wrong};

use super::{
    super::key_source::PlanSource,
    EachIn,
    key::{KeySeed, PlanSourceSeed},
};

/// The limits of a rule: one algorithm, or a list of them. `of` names the rule in messages.
pub(super) fn limits<'a>(of: &'a str) -> EachIn<impl Fn() -> AnyOf<'a>> {
    EachIn {
        read: move || AnyOf(of),
        what: format!("{of}`limit` to be an algorithm as a map of its fields, or a list of them"),
    }
}

/// The plans as read from the file.
pub(super) struct ReadPlans {
    pub(super) by: PlanSource,
    pub(super) limits: HashMap<String, Vec<Read>>,
}

/// The plans of a rule.
pub(super) struct PlansSeed<'a, 'b>(pub(super) KeySeed<'a, 'b>);

impl<'de> DeserializeSeed<'de> for PlansSeed<'_, '_> {
    type Value = ReadPlans;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ReadPlans, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PlansSeed<'_, '_> {
    type Value = ReadPlans;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}`plans` to be a map of `by` and `limits`", self.0.of)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadPlans, A::Error> {
        let KeySeed { of, .. } = self.0;
        let (mut by, mut limits) = (None, None);
        while let Some(field) = map.next_key::<String>()? {
            match &*field {
                "by" if by.is_none() => by = Some(map.next_value_seed(PlanSourceSeed(self.0))?),
                "limits" if limits.is_none() => limits = Some(map.next_value_seed(ByValue(of))?),
                _ => {
                    let unknown = format!(
                        "{of}`{field}` is not a field of `plans`, which has `by` and `limits`, each once"
                    );
                    return Err(wrong(&mut map, &unknown));
                }
            }
        }
        match (by, limits) {
            (Some(by), Some(limits)) => Ok(ReadPlans { by, limits }),
            _ => Err(de::Error::custom(format_args!(
                "{of}`plans` needs `by` and `limits`"
            ))),
        }
    }
}

/// The limits of each plan, by its value.
struct ByValue<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ByValue<'_> {
    type Value = HashMap<String, Vec<Read>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ByValue<'_> {
    type Value = HashMap<String, Vec<Read>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}`limits` to be a map of the limits by value", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut by_value = HashMap::new();
        while let Some(value) = map.next_key::<String>()? {
            let of = format!("{}plan `{value}`: ", self.0);
            let read = map.next_value_seed(limits(&of))?;
            if by_value.insert(value, read).is_some() {
                return Err(de::Error::custom(format_args!("{of}is given twice")));
            }
        }
        Ok(by_value)
    }
}
