//! Reads one rule.

use std::{collections::HashMap, fmt, ops::Range};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};

use crate::config::{Read, once, wrong};

use super::{
    super::{
        key_source::KeySource,
        limit::{MAX_LIMITS, RuleLimit},
        routes::Route,
        set::{Applies, Plans, Rule},
    },
    EachIn, File,
    key::KeySeed,
    limits::{PlansSeed, ReadPlans, limits},
};

/// The next rule of the file.
pub(super) struct RuleSeed<'a, 'b>(pub(super) &'a mut File<'b>);

const FIELDS: &str = "`name`, `routes`, `key`, `cost`, `shadow`, `limit`, `plans`";

/// The fields of a rule.
#[derive(Default)]
struct Fields {
    name: Option<String>,
    routes: Option<Vec<(Route, Option<u32>)>>,
    key: Option<KeySource>,
    cost: Option<u64>,
    shadow: Option<bool>,
    limit: Option<Vec<Read>>,
    plans: Option<ReadPlans>,
}

impl<'de> DeserializeSeed<'de> for RuleSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RuleSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.set.rules.len() + 1;
        write!(f, "rule {number} as a map of {FIELDS}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(file) = self;
        let number = file.set.rules.len() + 1;
        let mut of = format!("rule {number}: ");
        let mut fields = Fields::default();
        while let Some(field) = map.next_key::<String>()? {
            let is_there = match &*field {
                "routes" => fields.routes.is_some(),
                "key" => fields.key.is_some(),
                "limit" => fields.limit.is_some(),
                "plans" => fields.plans.is_some(),
                _ => false,
            };
            if is_there {
                let twice = format!("{of}`{field}` is given twice");
                return Err(wrong(&mut map, &twice));
            }
            match &*field {
                "name" => {
                    once(&mut fields.name, (&of, "name"), &mut map)?;
                    let name = fields.name.as_deref().unwrap_or_default();
                    of = format!("rule {number} (`{name}`): ");
                }
                "cost" => once(&mut fields.cost, (&of, "cost"), &mut map)?,
                "shadow" => once(&mut fields.shadow, (&of, "shadow"), &mut map)?,
                "routes" => {
                    fields.routes = Some(map.next_value_seed(EachIn {
                        read: || RouteSeed(&of),
                        what: format!("{of}`routes` to be a list such as [\"GET /users/{{id}}\"]"),
                    })?);
                }
                "key" => {
                    let key = KeySeed { file, of: &of };
                    fields.key = Some(map.next_value_seed(key)?);
                }
                "limit" => fields.limit = Some(map.next_value_seed(limits(&of))?),
                "plans" => {
                    let key = KeySeed { file, of: &of };
                    fields.plans = Some(map.next_value_seed(PlansSeed(key))?);
                }
                _ => {
                    let unknown =
                        format!("{of}`{field}` is not a field of a rule, which has {FIELDS}");
                    return Err(wrong(&mut map, &unknown));
                }
            }
        }
        file.add(fields)
            .map_err(|why| de::Error::custom(format_args!("{of}{why}")))
    }
}

impl File<'_> {
    /// Adds a rule, or says what is wrong with it.
    fn add(&mut self, fields: Fields) -> Result<(), String> {
        let name = fields.name.ok_or("`name` is missing")?;
        let key = fields.key.ok_or("`key` is missing, such as \"address\"")?;
        let limit = fields.limit.ok_or("`limit` is missing")?;
        let in_shadow = fields.shadow.unwrap_or(false);
        if !self.names.insert(name.clone()) {
            return Err("another rule or limit has this name".to_owned());
        }
        let mut own = Vec::new();
        let limits = self.add_limits(limit, &name, in_shadow, &mut own)?;
        let plans = match fields.plans {
            None => None,
            Some(ReadPlans { by, limits }) => {
                let mut by_value = HashMap::new();
                for (value, read) in limits {
                    let added = self.add_limits(read, &name, in_shadow, &mut own);
                    let added = added.map_err(|why| format!("plan `{value}`: {why}"))?;
                    by_value.insert(value.into(), added);
                }
                Some(Plans {
                    by,
                    limits: by_value,
                })
            }
        };
        self.add_routes(fields.routes, fields.cost, &key)?;
        self.rule_names.push(name);
        self.set.rules.push(Rule {
            key,
            limits,
            plans,
            in_shadow,
        });
        Ok(())
    }

    /// Adds the limits of a rule, or of one of its plans, which may have the names of the rule's
    /// `own` limits too.
    fn add_limits(
        &mut self,
        read: Vec<Read>,
        rule: &str,
        in_shadow: bool,
        own: &mut Vec<String>,
    ) -> Result<Range<u32>, String> {
        let count = read.len();
        if count == 0 || count > MAX_LIMITS {
            return Err(format!(
                "`limit` has {count} limits, but must have 1 to {MAX_LIMITS}"
            ));
        }
        let first = number(self.limits.0.len());
        let mut here: Vec<String> = Vec::new();
        for limit in read {
            if count > 1 && !limit.has_name() {
                return Err("each of several limits needs a `name`".to_owned());
            }
            let (algorithm, name) = limit.named(rule).map_err(|error| error.to_string())?;
            let is_known = name == rule || own.contains(&name);
            if here.contains(&name) || !is_known && !self.names.insert(name.clone()) {
                return Err(format!("another rule or limit has the name `{name}`"));
            }
            if !is_known {
                own.push(name.clone());
            }
            here.push(name.clone());
            let limit = RuleLimit::new(algorithm, in_shadow);
            self.limits.0.push((limit, name.into()));
        }
        Ok(first..number(self.limits.0.len()))
    }

    /// Adds the routes of the next rule, if one of them at least can match.
    fn add_routes(
        &mut self,
        routes: Option<Vec<(Route, Option<u32>)>>,
        cost: Option<u64>,
        key: &KeySource,
    ) -> Result<(), String> {
        let rule = number(self.set.rules.len());
        let cost = match cost {
            None => 1,
            Some(cost) => {
                u32::try_from(cost).map_err(|_| format!("`cost`: {cost} is too large"))?
            }
        };
        let routes = routes.unwrap_or_else(|| vec![(Route::EVERY, None)]);
        let begins = self.routes.len();
        if routes.is_empty() {
            return Err("`routes` is empty: leave it out for every request".to_owned());
        }
        if self.set.applies == Applies::First {
            let mut covering = None;
            let is_covered = |(route, _): &(Route, Option<u32>)| {
                let before = self.covering(route);
                covering = covering.or(before);
                before.is_some()
            };
            if routes.iter().all(is_covered) {
                return Err(format!(
                    "it can never match: earlier rules, such as rule {}, match all of its requests",
                    covering.map_or(0, |rule| rule + 1)
                ));
            }
        }
        let routes = routes.into_iter();
        self.routes
            .extend(routes.map(|(route, own)| (route, rule, own.unwrap_or(cost))));
        self.rules.push((begins, key.always_applies()));
        Ok(())
    }

    /// The earlier rule that matches every request of this route.
    fn covering(&self, route: &Route) -> Option<u32> {
        let before = self.routes.iter().find(|(earlier, rule, _)| {
            let (_, always_applies) = self.rules[*rule as usize];
            always_applies && earlier.covers(route)
        });
        before.map(|(_, rule, _)| *rule)
    }
}

/// An index as a `u32`: no file is so large that it would not fit.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A route, with the cost of its requests if it has one of its own.
struct RouteSeed<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for RouteSeed<'_> {
    type Value = (Route, Option<u32>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RouteSeed<'_> {
    type Value = (Route, Option<u32>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}a route such as \"GET /users/{{id}}\", or a map of `route` and `cost`",
            self.0
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match Route::parse(text) {
            Ok(route) => Ok((route, None)),
            Err(why) => Err(E::custom(format_args!("{}`routes`: {why}", self.0))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut route, mut cost) = (None, None);
        while let Some(field) = map.next_key::<String>()? {
            match &*field {
                "route" if route.is_none() => route = Some(map.next_value_seed(RouteSeed(self.0))?),
                "cost" => once::<u64, _>(&mut cost, (self.0, "cost"), &mut map)?,
                _ => {
                    let unknown = format!(
                        "{}`{field}` is not a field of a route, which has `route` and `cost`, each once",
                        self.0
                    );
                    return Err(wrong(&mut map, &unknown));
                }
            }
        }
        let cost = cost.map(|cost| {
            u32::try_from(cost).map_err(|_| {
                de::Error::custom(format_args!("{}`cost`: {cost} is too large", self.0))
            })
        });
        match route {
            Some((route, _)) => Ok((route, cost.transpose()?)),
            None => Err(de::Error::custom(format_args!(
                "{}a route needs `route`",
                self.0
            ))),
        }
    }
}
