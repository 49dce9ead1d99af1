//! A map in which no name may stand twice: a line that was copied and not changed is a mistake.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

/// A map in which no name may stand twice; that of the standard library keeps the last value.
pub(crate) struct Distinct<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Distinct<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DistinctVisitor(PhantomData))
    }
}

struct DistinctVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for DistinctVisitor<V> {
    type Value = Distinct<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct<V>, A::Error> {
        let mut distinct = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if distinct.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            distinct.insert(name, map.next_value()?);
        }
        Ok(Distinct(distinct))
    }
}
