//! Makes the rules of a file, and reports mistakes in them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use http::HeaderName;

use crate::{
    algorithm::Algorithm,
    config::AnyAlgorithm,
    error::ConfigError,
    key::{ClientIp, Header, PeerIp},
};

use super::{
    super::{
        key_source::{KeySource, NamedExtension, OnMissing, PlanSource},
        routes::Route,
        set::{Limits, Plans, Rule, RuleSet},
    },
    Applies, Each, File, KeyFields, NamedKey, Proxies, RouteAndCost, RuleFields, TextOr, Unmatched,
};

impl File {
    /// The rules, or what is wrong with the file.
    pub(in crate::rules) fn build(
        self,
        extensions: &HashMap<String, NamedExtension>,
    ) -> Result<RuleSet, String> {
        let client = self.proxies.as_ref().map(client).transpose();
        let client = client.map_err(|error| format!("`proxies`: {error}"))?;
        if self.rules.is_empty() {
            return Err("a file of rules needs at least one of `rules`".to_owned());
        }
        let set = RuleSet {
            all_apply: self.applies == Applies::All,
            refuses_unmatched: self.unmatched == Unmatched::Refuse,
            ..RuleSet::default()
        };
        let mut builder = Builder {
            extensions,
            client: client.map(Arc::new),
            set,
            names: HashMap::new(),
        };
        for (number, rule) in (1..).zip(self.rules) {
            let of = format!("rule {number} (`{}`): ", rule.name);
            builder.add(rule).map_err(|why| of + &why)?;
        }
        builder.set.routes.finish();
        Ok(builder.set)
    }
}

fn client(proxies: &Proxies) -> Result<ClientIp, ConfigError> {
    let Each(trusted) = &proxies.trusted;
    match &*proxies.header.to_ascii_lowercase() {
        "x-forwarded-for" => ClientIp::try_x_forwarded_for(trusted),
        "forwarded" => ClientIp::try_forwarded(trusted),
        other => ClientIp::try_header(other, trusted),
    }
}

/// What was made so far.
struct Builder<'a> {
    extensions: &'a HashMap<String, NamedExtension>,
    client: Option<Arc<ClientIp>>,
    set: RuleSet,
    /// The names of the rules and limits, each with the number of its rule.
    names: HashMap<String, u32>,
}

impl Builder<'_> {
    /// Adds the next rule.
    fn add(&mut self, given: RuleFields) -> Result<(), String> {
        let rule = self.set.rules.len() as u32; // No file is so large that it would not fit.
        if self.names.insert(given.name.clone(), rule).is_some() {
            return Err("another rule or limit has this name".to_owned());
        }
        let (name, in_shadow) = (&*given.name, given.shadow);
        let key = self.key(given.key)?;
        let limits = self.add_limits(given.limit, (rule, name), in_shadow)?;
        let mut plans = None;
        if let Some(given) = given.plans {
            let by = self.source("by", given.by.header, given.by.extension)?;
            let mut limits = BTreeMap::new();
            for (plan, own) in given.limits.0 {
                let own = self.add_limits(own, (rule, name), in_shadow);
                let own = own.map_err(|why| format!("plan `{plan}`: {why}"))?;
                limits.insert(plan.into(), own);
            }
            if limits.is_empty() {
                return Err("`plans` has no `limits`".to_owned());
            }
            plans = Some(Plans { by, limits });
        }
        let routes = given.routes.map(|Each(routes)| routes);
        self.add_routes((rule, name), routes, given.cost.unwrap_or(1))?;
        self.set.rules.push(Rule {
            key,
            limits,
            plans,
            in_shadow,
        });
        Ok(())
    }

    fn key(&self, Each(sources): Each<TextOr<NamedKey, KeyFields>>) -> Result<KeySource, String> {
        let sources = sources.into_iter().map(|source| self.key_source(source));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        match sources.len() {
            0 => Err("`key` is an empty list".to_owned()),
            1 => Ok(sources.remove(0)),
            _ => Ok(KeySource::Several(sources.into())),
        }
    }

    fn key_source(&self, given: TextOr<NamedKey, KeyFields>) -> Result<KeySource, String> {
        Ok(match given {
            TextOr::Text(NamedKey::Everyone) => KeySource::Everyone,
            TextOr::Text(NamedKey::Address) => KeySource::Address(PeerIp::new()),
            TextOr::Text(NamedKey::Route) => KeySource::Route,
            TextOr::Text(NamedKey::Client) => {
                let client = self.client.clone();
                KeySource::Client(client.ok_or("`key` is \"client\", which needs `proxies`")?)
            }
            TextOr::Map(given) => match self.source("key", given.header, given.extension)? {
                PlanSource::Extension(extension) => KeySource::Extension(extension, given.missing),
                PlanSource::Header(name) => {
                    let header = Header::new(name);
                    let header = match given.missing {
                        OnMissing::Reject => header,
                        OnMissing::Next => header.or_skip(),
                        OnMissing::Shared => header.or_shared(),
                    };
                    KeySource::Header(header, given.missing)
                }
            },
        })
    }

    fn source(
        &self,
        field: &str,
        header: Option<String>,
        extension: Option<String>,
    ) -> Result<PlanSource, String> {
        match (header, extension) {
            (Some(name), None) => match HeaderName::try_from(&name) {
                Ok(name) => Ok(PlanSource::Header(name)),
                Err(_) => Err(format!("`header`: {name:?} is not a header name")),
            },
            (None, Some(name)) => match self.extensions.get(&name) {
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
        Each(given): Each<AnyAlgorithm>,
        (rule, rule_name): (u32, &str),
        in_shadow: bool,
    ) -> Result<Limits, String> {
        let (mut limits, count) = (Vec::<Arc<AnyAlgorithm>>::new(), given.len());
        if count == 0 {
            return Err("`limit` is an empty list".to_owned());
        }
        for algorithm in given {
            let own_name = algorithm.policy().own_name().cloned();
            if count > 1 && own_name.is_none() {
                return Err("each of several limits needs a `name`".to_owned());
            }
            let name = own_name.as_deref().unwrap_or(rule_name);
            let is_of_another = *self.names.entry(name.to_owned()).or_insert(rule) != rule;
            if is_of_another || limits.iter().any(|other| other.name() == name) {
                return Err(format!("another rule or limit has the name `{name}`"));
            }
            let limit = algorithm.named(name).map_err(|error| error.to_string())?;
            limits.push(Arc::new(match in_shadow {
                true => limit.shadow(),
                false => limit,
            }));
        }
        Ok(limits.into())
    }

    /// Adds the routes of the next rule, if one of them at least can match.
    fn add_routes(
        &mut self,
        (rule, name): (u32, &str),
        given: Option<Vec<TextOr<String, RouteAndCost>>>,
        cost: u32,
    ) -> Result<(), String> {
        let mut routes = Vec::new();
        match given {
            None => routes.push((Route::every(), cost)),
            Some(given) => {
                for route in given {
                    let (text, cost) = match route {
                        TextOr::Text(route) => (route, cost),
                        TextOr::Map(route) => (route.route, route.cost.unwrap_or(cost)),
                    };
                    let route = Route::parse(&text).map_err(|why| format!("`routes`: {why}"))?;
                    routes.push((route, cost));
                }
            }
        }
        if routes.is_empty() {
            return Err("`routes` is empty: leave it out for every request".to_owned());
        }
        if !self.set.all_apply {
            let always_applies = |rule: u32| self.set.rules[rule as usize].always_applies();
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
        for (route, cost) in routes {
            self.set.matched.add(name, route.with_pattern());
            self.set.routes.add(&route, rule, cost);
        }
        Ok(())
    }
}
