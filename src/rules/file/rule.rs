//! The fields of a rule, and what is made of them.

use std::{collections::HashMap, ops::Range, sync::Arc};

use http::HeaderName;

use crate::{
    algorithm::described::{Input, Kind},
    key::{Header, PeerIp},
};

use super::{
    super::{
        key_source::{KeySource, OnMissing, PlanSource},
        limit::{MAX_LIMITS, RuleLimit},
        routes::Route,
        set::{Plans, Rule},
    },
    File,
    tree::{Map, Shape, Table, Tree},
};

pub(super) const RULE: Table = &[
    ("name", Shape::Value(Kind::TEXT)),
    ("routes", Shape::Each(&Shape::TextOr(ROUTE, ROUTE_AND_COST))),
    ("key", Shape::Each(&Shape::TextOr(KEY, KEY_SOURCE))),
    ("cost", Shape::Value(COST)),
    ("shadow", Shape::Value(Kind::FLAG)),
    ("limit", LIMIT),
    ("plans", Shape::Map(PLANS)),
];

const ROUTE_AND_COST: Table = &[("route", Shape::Value(ROUTE)), ("cost", Shape::Value(COST))];

const KEY_SOURCE: Table = &[
    ("header", Shape::Value(HEADER)),
    ("extension", Shape::Value(Kind::TEXT)),
    ("missing", Shape::OneOf(&["reject", "next", "shared"])),
];

const PLANS: Table = &[
    ("by", Shape::Map(PLAN_SOURCE)),
    ("limits", Shape::EachPlan(&LIMIT)),
];

const PLAN_SOURCE: Table = &[
    ("header", Shape::Value(HEADER)),
    ("extension", Shape::Value(Kind::TEXT)),
];

const LIMIT: Shape = Shape::Each(&Shape::Limit);

const ROUTE: Kind = Kind {
    expected: "a list such as [\"GET /users/{id}\"]",
    check: |text| Route::parse(text).map(drop),
    ..Kind::TEXT
};

const KEYS: &str =
    "\"everyone\", \"address\", \"client\", \"route\", a header, an extension or a list of these";

const KEY: Kind = Kind {
    expected: KEYS,
    check: |text| match text {
        "everyone" | "address" | "client" | "route" => Ok(()),
        _ => Err(format!("{text:?} is not {KEYS}")),
    },
    ..Kind::TEXT
};

const HEADER: Kind = Kind {
    check: |text| parse_header(text).map(drop),
    ..Kind::TEXT
};

const COST: Kind = Kind {
    input: Input::Number,
    check: |text| match text.parse::<u32>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{text} is too large")),
    },
    ..Kind::NUMBER
};

fn parse_header(name: &str) -> Result<HeaderName, String> {
    (name.parse()).map_err(|_| format!("{name:?} is not a header name"))
}

fn cost(fields: &Map) -> Option<u32> {
    fields.text("cost").and_then(|cost| cost.parse().ok())
}

impl File<'_> {
    /// What the next rule is called in messages.
    pub(super) fn next_rule(&self) -> String {
        format!("rule {}: ", self.set.rules.len() + 1)
    }

    /// Adds a rule, or says what is wrong with it.
    pub(super) fn add(&mut self, rule: &Map) -> Result<(), String> {
        let of = self.next_rule();
        let name = rule.text("name").ok_or(format!("{of}`name` is missing"))?;
        let of = of.replace(':', &format!(" (`{name}`):"));
        self.add_named(name, rule).map_err(|why| of + &why)
    }

    fn add_named(&mut self, name: &str, rule: &Map) -> Result<(), String> {
        let key = rule
            .list("key")
            .ok_or("`key` is missing, such as \"address\"")?;
        let key = self.key("", key)?;
        let own = rule.list("limit").ok_or("`limit` is missing")?;
        let in_shadow = rule.text("shadow") == Some("true");
        let number = number(self.set.rules.len());
        if self.names.insert(name.to_owned(), number).is_some() {
            return Err("another rule or limit has this name".to_owned());
        }
        let mut add_limits = |own: &[Tree]| self.add_limits(own, (number, name), in_shadow);
        let limits = add_limits(own)?;
        let mut of_plans = HashMap::new();
        let plans = rule.map("plans");
        for (plan, own) in plans
            .and_then(|plans| plans.map("limits"))
            .into_iter()
            .flat_map(|it| &it.0)
        {
            let own = add_limits(own.list().unwrap_or_default());
            let own = own.map_err(|why| format!("plan `{plan}`: {why}"))?;
            of_plans.insert(plan.as_str().into(), own);
        }
        let plans = match plans {
            Some(plans) => {
                let by = plans.map("by").filter(|_| !of_plans.is_empty());
                let by = by.ok_or("`plans` needs `by` and `limits`")?;
                let (by, limits) = (self.source("by", by)?, of_plans);
                Some(Plans { by, limits })
            }
            None => None,
        };
        self.add_routes(name, rule)?;
        self.set.rules.push(Rule {
            key,
            limits,
            plans,
            in_shadow,
        });
        Ok(())
    }

    /// The key of a rule; `of` names the rule.
    pub(super) fn key(&self, of: &str, sources: &[Tree]) -> Result<KeySource, String> {
        let sources = sources.iter().map(|source| self.key_source(source));
        let sources = sources.collect::<Result<Vec<_>, _>>();
        let mut sources = sources.map_err(|why| format!("{of}{why}"))?;
        match sources.len() {
            0 => Err(format!("{of}`key` is an empty list")),
            1 => Ok(sources.remove(0)),
            _ => Ok(KeySource::Several(sources.into())),
        }
    }

    fn key_source(&self, source: &Tree) -> Result<KeySource, String> {
        if let Tree::Map(fields) = source {
            let missing = match fields.text("missing") {
                Some("next") => OnMissing::Next,
                Some("shared") => OnMissing::Share,
                _ => OnMissing::Reject,
            };
            return Ok(match self.source("key", fields)? {
                PlanSource::Extension(extension) => KeySource::Extension(extension, missing),
                PlanSource::Header(name) => KeySource::Header(match missing {
                    OnMissing::Reject => Header::new(name),
                    OnMissing::Next => Header::new(name).or_skip(),
                    OnMissing::Share => Header::new(name).or_shared(),
                }),
            });
        }
        Ok(match source.text() {
            Some("address") => KeySource::Address(PeerIp::new()),
            Some("route") => KeySource::Route,
            Some("client") => {
                let wrong = "`key` is \"client\", which needs `proxies` before the rules";
                KeySource::Client(Arc::new(self.client.clone().ok_or(wrong)?))
            }
            // Any other text was refused where it stands.
            _ => KeySource::Everyone,
        })
    }

    fn source(&self, field: &str, fields: &Map) -> Result<PlanSource, String> {
        match (fields.text("header"), fields.text("extension")) {
            (Some(name), None) => parse_header(name).map(PlanSource::Header),
            (None, Some(name)) => match self.extensions.get(name) {
                Some(extension) => Ok(PlanSource::Extension(extension.clone())),
                None => {
                    let mut known: Vec<_> = self.extensions.keys().collect();
                    known.sort();
                    Err(format!(
                        "`extension` is {name:?}, which the program does not register (it registers {known:?})"
                    ))
                }
            },
            _ => Err(format!(
                "`{field}` needs `header` or `extension`, one of the two"
            )),
        }
    }

    /// Adds the limits of a rule, or of one of its plans. Those may have the same names, but no
    /// other rule may.
    fn add_limits(
        &mut self,
        given: &[Tree],
        (rule, rule_name): (u32, &str),
        in_shadow: bool,
    ) -> Result<Range<u32>, String> {
        let (first, count) = (self.limits.0.len(), given.len());
        if count == 0 || count > MAX_LIMITS {
            return Err(format!(
                "`limit` has {count} limits, but must have 1 to {MAX_LIMITS}"
            ));
        }
        for limit in given {
            let Tree::Limit(algorithm, own) = limit else {
                continue;
            };
            if count > 1 && own.is_none() {
                return Err("each of several limits needs a `name`".to_owned());
            }
            let name = own.as_deref().unwrap_or(rule_name);
            let is_of_another = *self.names.entry(name.to_owned()).or_insert(rule) != rule;
            if is_of_another || (self.limits.0[first..].iter()).any(|other| other.name() == name) {
                return Err(format!("another rule or limit has the name `{name}`"));
            }
            let algorithm = (**algorithm)
                .clone()
                .named(name)
                .map_err(|error| error.to_string())?;
            self.limits.0.push(RuleLimit::new(algorithm, in_shadow));
        }
        Ok(number(first)..number(self.limits.0.len()))
    }

    /// Adds the routes of the next rule, if one of them at least can match.
    fn add_routes(&mut self, name: &str, fields: &Map) -> Result<(), String> {
        let rule = number(self.set.rules.len());
        let routes = match fields.list("routes") {
            None => vec![(Route::every(), None)],
            Some(given) => given.iter().map(route).collect::<Result<_, _>>()?,
        };
        if routes.is_empty() {
            return Err("`routes` is empty: leave it out for every request".to_owned());
        }
        if !self.set.all_apply {
            let always_applies = |rule: u32| self.set.rules[rule as usize].key.always_applies();
            let covering = routes
                .iter()
                .map(|(route, _)| self.set.routes.covering(route, always_applies));
            if let Some(covering) = covering.collect::<Option<Vec<_>>>() {
                return Err(format!(
                    "it can never match: earlier rules, such as rule {}, match all of its requests",
                    covering[0] + 1
                ));
            }
        }
        for (route, own_cost) in routes {
            let cost = own_cost.or_else(|| cost(fields)).unwrap_or(1);
            self.set.matched.add(name, route.with_pattern());
            self.set.routes.add(&route, rule, cost);
        }
        Ok(())
    }
}

/// A route, with the cost of its requests if it has one of its own.
fn route(given: &Tree) -> Result<(Route, Option<u32>), String> {
    let (text, cost) = match given {
        Tree::Map(fields) => (fields.text("route"), cost(fields)),
        other => (other.text(), None),
    };
    let route = Route::parse(text.ok_or("a route needs `route`")?)?;
    Ok((route, cost))
}

/// An index as a `u32`: no file is so large that it would not fit.
fn number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
