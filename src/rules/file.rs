//! Reads the file of rules, and reports mistakes in it.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use serde::de::{Error, MapAccess};

use crate::{
    config::{InField, InMap, ReadFields, wrong},
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
mod list;
mod plans;
mod rule;

use key::Proxies;
use list::EachIn;
use rule::RuleFields;

/// A file while it is read, and what was read so far.
struct File<'a> {
    extensions: &'a HashMap<String, NamedExtension>,
    client: Option<ClientIp>,
    set: RuleSet,
    limits: LimitTable,
    /// The names of the rules and limits, each with the number of its rule.
    names: HashMap<String, u32>,
    /// The routes of all rules, with the number of the rule and the cost.
    routes: Vec<(Route, u32, u32)>,
}

impl File<'_> {
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
            let rule = &self.set.rules[*rule as usize];
            (&*rule.name, route.with_pattern())
        });
        self.set.matched = MatchedRoutes::new(named);
        self.set.limits = Arc::new(self.limits);
        Ok(self.set)
    }
}

/// The fields of the file.
pub(super) struct FileFields<'a> {
    file: RefCell<File<'a>>,
    has_rules: bool,
}

impl<'a> FileFields<'a> {
    pub(super) fn new(extensions: &'a HashMap<String, NamedExtension>) -> Self {
        let file = RefCell::new(File {
            extensions,
            client: None,
            set: RuleSet::default(),
            limits: LimitTable::default(),
            names: HashMap::new(),
            routes: Vec::new(),
        });
        Self {
            file,
            has_rules: false,
        }
    }
}

impl ReadFields for FileFields<'_> {
    type Output = RuleSet;

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        let fields = &["match", "unmatched", "proxies", "rules"];
        ("", "a file of rules".to_owned(), fields)
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        let file = self.file.get_mut();
        match field {
            // Rules are read with these.
            "match" | "proxies" if self.has_rules => {
                return Err(wrong(map, &format!("`{field}` must come before the rules")));
            }
            "match" => {
                let values = [("first", Applies::First), ("all", Applies::All)];
                file.set.applies = one_of(("", field), &values, map)?;
            }
            "unmatched" => {
                let values = [("pass", false), ("refuse", true)];
                file.set.refuses_unmatched = one_of(("", field), &values, map)?;
            }
            "proxies" => file.client = Some(map.next_value_seed(InMap(Proxies::default()))?),
            "rules" => {
                self.has_rules = true;
                map.next_value_seed(EachIn {
                    read: || InMap(RuleFields::new(&self.file)),
                    what: "`rules` to be a list".to_owned(),
                })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<RuleSet, String> {
        self.file.into_inner().finish()
    }
}

/// One of these texts, and what it stands for.
fn one_of<'de, T: Copy, A: MapAccess<'de>>(
    (of, field): (&str, &str),
    values: &[(&str, T)],
    map: &mut A,
) -> Result<T, A::Error> {
    let text = map.next_value_seed(InField::<String>::new(of, field))?;
    let found = values.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = values.iter().map(|(name, _)| format!("{name:?}")).collect();
        let names = names.join(" or ");
        A::Error::custom(format_args!(
            "{of}`{field}` is {text:?}, but must be {names}"
        ))
    })
}
