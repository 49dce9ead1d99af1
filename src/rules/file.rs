//! Reads the file of rules, and reports mistakes in it.

use std::{collections::HashMap, fmt, sync::Arc};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::{algorithm::described::Kind, key::ClientIp};

use super::{
    key_source::NamedExtension,
    limit::{LimitTable, MAX_LIMITS},
    set::RuleSet,
};

mod rule;
mod tree;

use rule::RULE;
use tree::{Map, Shape, Table, Tree};

/// The fields of the file.
const FILE: Table = &[
    ("match", Shape::OneOf(&["first", "all"])),
    ("unmatched", Shape::OneOf(&["pass", "refuse"])),
    ("proxies", Shape::Map(PROXIES)),
    ("rules", Shape::Map(RULE)),
];

/// The trusted proxies, and the header in which they name the client.
const PROXIES: Table = &[
    ("trusted", Shape::Each(&Shape::Value(Kind::TEXT))),
    ("header", Shape::Value(Kind::TEXT)),
];

/// A file while it is read, and what was read so far.
pub(super) struct File<'a> {
    extensions: &'a HashMap<String, NamedExtension>,
    client: Option<ClientIp>,
    set: RuleSet,
    limits: LimitTable,
    /// The names of the rules and limits, each with the number of its rule.
    names: HashMap<String, u32>,
}

impl<'a> File<'a> {
    pub(super) fn new(extensions: &'a HashMap<String, NamedExtension>) -> Self {
        Self {
            extensions,
            client: None,
            set: RuleSet::default(),
            limits: LimitTable::default(),
            names: HashMap::new(),
        }
    }

    /// Takes another field than `rules`. What says how these are read comes before them.
    fn set(&mut self, field: &str, given: &Tree) -> Result<(), String> {
        match (field, given) {
            ("unmatched", refuse) => self.set.refuses_unmatched = refuse.text() == Some("refuse"),
            _ if !self.set.rules.is_empty() => {
                return Err(format!("`{field}` must come before the rules"));
            }
            ("match", all) => self.set.all_apply = all.text() == Some("all"),
            ("proxies", Tree::Map(proxies)) => {
                let client = client(proxies).map_err(|why| format!("`proxies`: {why}"))?;
                self.client = Some(client);
            }
            _ => {}
        }
        Ok(())
    }

    /// The rules, when the whole file is read.
    fn finish(mut self) -> Result<RuleSet, String> {
        if self.set.rules.is_empty() {
            return Err("a file of rules needs at least one of `rules`".to_owned());
        }
        let weight = |rule: u32| {
            let rule = &self.set.rules[rule as usize];
            let of_plans = rule.plans.iter().flat_map(|plans| plans.limits.values());
            let most = of_plans.map(ExactSizeIterator::len).max().unwrap_or(0);
            most.max(rule.limits.len())
        };
        let heaviest = self.set.routes.heaviest(weight);
        if self.set.all_apply && heaviest > MAX_LIMITS {
            return Err(format!(
                "up to {heaviest} limits would apply to one request, more than {MAX_LIMITS}"
            ));
        }
        self.set.routes.finish();
        self.set.limits = Arc::new(self.limits);
        Ok(self.set)
    }
}

fn client(proxies: &Map) -> Result<ClientIp, String> {
    let trusted = proxies.list("trusted").into_iter().flatten();
    let trusted = trusted.filter_map(Tree::text);
    let client = match proxies.text("header") {
        None => return Err("`header` is missing, such as \"x-forwarded-for\"".to_owned()),
        Some("x-forwarded-for") => ClientIp::try_x_forwarded_for(trusted),
        Some("forwarded") => ClientIp::try_forwarded(trusted),
        Some(other) => ClientIp::try_header(other, trusted),
    };
    client.map_err(|error| error.to_string())
}

impl<'de> DeserializeSeed<'de> for File<'_> {
    type Value = RuleSet;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RuleSet, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = RuleSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file of rules as a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<RuleSet, A::Error> {
        let mut given = Map::default();
        while let Some(field) = map.next_key::<String>()? {
            if field == "rules" {
                map.next_value_seed(EachRule(&mut self))?;
            } else {
                let of = field.clone();
                given.read("", FILE, field, &mut map, |tree| self.set(&of, tree))?;
            }
        }
        self.finish().map_err(A::Error::custom)
    }
}

/// Reads the rules one after the other. Each is added, and may be found wrong, where it stands.
struct EachRule<'a, 'b>(&'a mut File<'b>);

impl<'de> DeserializeSeed<'de> for EachRule<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EachRule<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`rules` to be a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(EachRule(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (of, mut given) = (self.0.next_rule(), Map::default());
        while let Some(field) = map.next_key::<String>()? {
            let is_key = field == "key";
            given.read(&of, RULE, field, &mut map, |tree| match tree.list() {
                Some(key) if is_key => self.0.key(&of, key).map(drop),
                _ => Ok(()),
            })?;
        }
        self.0.add(&given).map_err(A::Error::custom)
    }
}
