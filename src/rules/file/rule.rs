//! Reads one rule.

use std::{cell::RefCell, collections::HashMap, ops::Range};

use serde::de::{MapAccess, Unexpected};

use crate::config::{Hint, InMap, Read, ReadFields, Value, value};

use super::{
    super::{
        key_source::{KeySource, PlanSource},
        limit::{MAX_LIMITS, RuleLimit},
        routes::Route,
        set::{Applies, Plans, Rule},
    },
    EachIn, File,
    key::KeySeed,
    plans::{PlansFields, limits},
};

/// The next rule of the file.
pub(super) struct RuleFields<'a, 'b> {
    file: &'a RefCell<File<'b>>,
    of: String,
    name: Option<String>,
    routes: Option<Vec<RouteAndCost>>,
    key: Option<KeySource>,
    cost: Option<u32>,
    shadow: Option<bool>,
    limit: Option<Vec<Read>>,
    plans: Option<(PlanSource, HashMap<String, Vec<Read>>)>,
}

/// A route, with the cost of its requests if it has one of its own.
type RouteAndCost = (Route, Option<u32>);

impl<'a, 'b> RuleFields<'a, 'b> {
    pub(super) fn new(file: &'a RefCell<File<'b>>) -> Self {
        Self {
            file,
            of: format!("rule {}: ", file.borrow().set.rules.len() + 1),
            name: None,
            routes: None,
            key: None,
            cost: None,
            shadow: None,
            limit: None,
            plans: None,
        }
    }
}

impl ReadFields for RuleFields<'_, '_> {
    type Output = ();

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        let fields = &["name", "routes", "key", "cost", "shadow", "limit", "plans"];
        (&self.of, "a rule".to_owned(), fields)
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        let (of, file) = (&*self.of, &self.file.borrow());
        let key = KeySeed { file, of };
        match field {
            "name" => {
                self.name = value((of, field), map)?;
                let name = self.name.as_deref().unwrap_or_default();
                self.of = format!("rule {} (`{name}`): ", file.set.rules.len() + 1);
            }
            "routes" => {
                let read = || {
                    InMap(RouteFields {
                        of,
                        route: None,
                        cost: None,
                    })
                };
                self.routes = Some(map.next_value_seed(EachIn {
                    read,
                    what: format!("{of}`routes` to be a list such as [\"GET /users/{{id}}\"]"),
                })?);
            }
            "key" => self.key = Some(map.next_value_seed(key)?),
            "cost" => self.cost = value((of, field), map)?,
            "shadow" => self.shadow = value((of, field), map)?,
            "limit" => self.limit = Some(map.next_value_seed(limits(of))?),
            "plans" => self.plans = Some(map.next_value_seed(InMap(PlansFields::new(key)))?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<(), String> {
        let file = self.file;
        file.borrow_mut().add(self)
    }
}

impl File<'_> {
    /// Adds a rule, or says what is wrong with it.
    fn add(&mut self, rule: RuleFields<'_, '_>) -> Result<(), String> {
        let name = rule.name.ok_or("`name` is missing")?;
        let key = rule.key.ok_or("`key` is missing, such as \"address\"")?;
        let limit = rule.limit.ok_or("`limit` is missing")?;
        let in_shadow = rule.shadow.unwrap_or(false);
        let number = number(self.set.rules.len());
        if self.names.insert(name.clone(), number).is_some() {
            return Err("another rule or limit has this name".to_owned());
        }
        let mut add_limits = |read| self.add_limits(read, (number, &name), in_shadow);
        let limits = add_limits(limit)?;
        let plans = match rule.plans {
            None => None,
            Some((by, each)) => {
                let mut limits = HashMap::new();
                for (value, read) in each {
                    let added = add_limits(read).map_err(|why| format!("plan `{value}`: {why}"))?;
                    limits.insert(value.into(), added);
                }
                Some(Plans { by, limits })
            }
        };
        self.add_routes(rule.routes, rule.cost.unwrap_or(1))?;
        self.set.rules.push(Rule {
            name: name.into(),
            key,
            limits,
            plans,
            in_shadow,
        });
        Ok(())
    }

    /// Adds the limits of a rule, or of one of its plans. Those may have the same names, but no
    /// other rule may.
    fn add_limits(
        &mut self,
        read: Vec<Read>,
        (rule, rule_name): (u32, &str),
        in_shadow: bool,
    ) -> Result<Range<u32>, String> {
        let (first, count) = (self.limits.0.len(), read.len());
        if count == 0 || count > MAX_LIMITS {
            return Err(format!(
                "`limit` has {count} limits, but must have 1 to {MAX_LIMITS}"
            ));
        }
        for (algorithm, own) in read {
            if count > 1 && own.is_none() {
                return Err("each of several limits needs a `name`".to_owned());
            }
            let algorithm = match own {
                Some(_) => algorithm,
                None => (algorithm.named(rule_name)).map_err(|error| error.to_string())?,
            };
            let name = own.unwrap_or_else(|| rule_name.to_owned());
            let is_of_another = *self.names.entry(name.clone()).or_insert(rule) != rule;
            if is_of_another || (self.limits.0[first..].iter()).any(|(_, other)| **other == *name) {
                return Err(format!("another rule or limit has the name `{name}`"));
            }
            let limit = RuleLimit::new(algorithm, in_shadow);
            self.limits.0.push((limit, name.into()));
        }
        Ok(number(first)..number(self.limits.0.len()))
    }

    /// Adds the routes of the next rule, if one of them at least can match.
    fn add_routes(&mut self, routes: Option<Vec<RouteAndCost>>, cost: u32) -> Result<(), String> {
        let rule = number(self.set.rules.len());
        let routes = routes.unwrap_or_else(|| vec![(Route::EVERY, None)]);
        if routes.is_empty() {
            return Err("`routes` is empty: leave it out for every request".to_owned());
        }
        if self.set.applies == Applies::First {
            let covering = routes.iter().map(|(route, _)| self.covering(route));
            if let Some(covering) = covering.collect::<Option<Vec<_>>>() {
                return Err(format!(
                    "it can never match: earlier rules, such as rule {}, match all of its requests",
                    covering[0] + 1
                ));
            }
        }
        let routes = routes.into_iter();
        self.routes
            .extend(routes.map(|(route, own)| (route, rule, own.unwrap_or(cost))));
        Ok(())
    }

    /// The earlier rule that matches every request of this route.
    fn covering(&self, route: &Route) -> Option<u32> {
        let before = self.routes.iter().find(|(earlier, rule, _)| {
            earlier.covers(route) && self.set.rules[*rule as usize].key.always_applies()
        });
        before.map(|(_, rule, _)| *rule)
    }
}

/// An index as a `u32`: no file is so large that it would not fit.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Value for u32 {
    const EXPECTED: &'static str = u64::EXPECTED;
    const HINT: Hint = Hint::Number;

    fn from(given: &Unexpected<'_>) -> Option<Result<Self, String>> {
        let Unexpected::Unsigned(cost) = *given else {
            return None;
        };
        Some(Self::try_from(cost).map_err(|_| format!("{cost} is too large")))
    }
}

/// A route: a text, or a map with a cost of its own.
struct RouteFields<'a> {
    of: &'a str,
    route: Option<String>,
    cost: Option<u32>,
}

impl ReadFields for RouteFields<'_> {
    type Output = RouteAndCost;

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        (self.of, "a route".to_owned(), &["route", "cost"])
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        match field {
            "route" => self.route = value((self.of, field), map)?,
            "cost" => self.cost = value((self.of, field), map)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<Self::Output, String> {
        let route = self.route.as_deref().ok_or("a route needs `route`")?;
        Ok((parse(route)?, self.cost))
    }

    fn text(&self, text: &str) -> Option<Result<RouteAndCost, String>> {
        Some(parse(text).map(|route| (route, None)))
    }
}

fn parse(route: &str) -> Result<Route, String> {
    Route::parse(route).map_err(|why| format!("`routes`: {why}"))
}
