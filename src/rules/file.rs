//! Reads the file of rules, and reports mistakes in it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::{
    config::{once, wrong},
    key::ClientIp,
};

use super::{
    key_source::NamedExtension,
    limit::{LimitTable, MAX_LIMITS},
    matched::MatchedRoutes,
    routes::{Route, Routes},
    set::{Applies, RuleSet},
};

mod key;
mod limits;
mod list;
mod rule;

use key::ProxiesSeed;
use list::EachIn;
use rule::RuleSeed;

/// A file while it is read, and what was read so far.
pub(super) struct File<'a> {
    extensions: &'a HashMap<String, NamedExtension>,
    client: Option<ClientIp>,
    set: RuleSet,
    limits: LimitTable,
    /// The names of the rules and limits.
    names: HashSet<String>,
    /// The routes of all rules, with the number of the rule and the cost.
    routes: Vec<(Route, u32, u32)>,
    /// For each rule the index of its first route, and whether it applies to all matching requests.
    rules: Vec<(usize, bool)>,
    rule_names: Vec<String>,
}

const FIELDS: &str = "`match`, `unmatched`, `proxies`, `rules`";

impl<'a> File<'a> {
    pub(super) fn new(extensions: &'a HashMap<String, NamedExtension>) -> Self {
        Self {
            extensions,
            client: None,
            set: RuleSet::default(),
            limits: LimitTable::default(),
            names: HashSet::new(),
            routes: Vec::new(),
            rules: Vec::new(),
            rule_names: Vec::new(),
        }
    }

    /// The rules, when the whole file is read.
    fn finish(mut self) -> Result<RuleSet, String> {
        let weight = |rule: u32| {
            let rule = &self.set.rules[rule as usize];
            let of_plans = rule.plans.iter().flat_map(|plans| plans.limits.values());
            let most = of_plans.map(ExactSizeIterator::len).max().unwrap_or(0);
            most.max(rule.limits.len())
        };
        let routes = self.routes.iter();
        let routes = Routes::new(
            routes.map(|(route, rule, cost)| (route, *rule, *cost)),
            weight,
        );
        if self.set.applies == Applies::All && routes.most() > MAX_LIMITS {
            return Err(format!(
                "up to {} limits would apply to one request, more than {MAX_LIMITS}",
                routes.most()
            ));
        }
        self.set.routes = routes;
        let named = self.routes.iter().map(|(route, rule, _)| {
            let name = &self.rule_names[*rule as usize];
            (&**name, route.with_pattern())
        });
        self.set.matched = MatchedRoutes::new(named);
        self.set.limits = Arc::new(self.limits);
        Ok(self.set)
    }
}

impl<'de> DeserializeSeed<'de> for File<'_> {
    type Value = RuleSet;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RuleSet, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = RuleSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rules as a map of {FIELDS}")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<RuleSet, A::Error> {
        let (mut matching, mut unmatched) = (None::<String>, None::<String>);
        let mut has_rules = false;
        while let Some(field) = map.next_key::<String>()? {
            // Rules are read with these.
            if ["match", "proxies"].contains(&&*field) && has_rules {
                let late = format!("`{field}` must come before the rules");
                return Err(wrong(&mut map, &late));
            }
            match &*field {
                "match" => {
                    once(&mut matching, ("", "match"), &mut map)?;
                    self.set.applies = match matching.as_deref() {
                        Some("all") => Applies::All,
                        Some("first") => Applies::First,
                        _ => return Err(one_of("match", "\"first\" or \"all\"")),
                    };
                }
                "unmatched" => {
                    once(&mut unmatched, ("", "unmatched"), &mut map)?;
                    self.set.refuses_unmatched = match unmatched.as_deref() {
                        Some("refuse") => true,
                        Some("pass") => false,
                        _ => return Err(one_of("unmatched", "\"pass\" or \"refuse\"")),
                    };
                }
                "proxies" if self.client.is_none() => {
                    self.client = Some(map.next_value_seed(ProxiesSeed)?);
                }
                "rules" if !has_rules => {
                    has_rules = true;
                    map.next_value_seed(RuleList(&mut self))?;
                }
                "proxies" | "rules" => {
                    let twice = format!("`{field}` is given twice");
                    return Err(wrong(&mut map, &twice));
                }
                _ => {
                    let unknown =
                        format!("`{field}` is not a field of a file of rules, which has {FIELDS}");
                    return Err(wrong(&mut map, &unknown));
                }
            }
        }
        if self.rules.is_empty() {
            return Err(de::Error::custom(
                "a file of rules needs at least one of `rules`",
            ));
        }
        self.finish().map_err(de::Error::custom)
    }
}

fn one_of<E: de::Error>(field: &str, values: &str) -> E {
    E::custom(format_args!("`{field}` must be {values}"))
}

/// The rules, one after the other.
struct RuleList<'a, 'b>(&'a mut File<'b>);

impl<'de> DeserializeSeed<'de> for RuleList<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RuleList<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`rules` to be a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rules: A) -> Result<(), A::Error> {
        while rules.next_element_seed(RuleSeed(self.0))?.is_some() {}
        Ok(())
    }
}
