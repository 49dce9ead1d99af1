//! The rules of one file: which of them apply to a request, and what they charge.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use http::Request;

use crate::key::{MissingKey, matched_route};

use super::{
    key::{Charge, ChargeList, KeyValue, RuleKey},
    key_source::{KeySource, PlanSource, no_rule},
    limit::LimitTable,
    routes::{Methods, Routes},
};

/// The rules of one file.
#[derive(Default)]
pub(crate) struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) limits: Arc<LimitTable>,
    pub(super) routes: Routes,
    pub(super) applies: Applies,
    pub(super) refuses_unmatched: bool,
}

/// How many of the rules that match a request apply to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Applies {
    #[default]
    First,
    All,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) key: KeySource,
    /// Its limits, by their numbers.
    pub(super) limits: Range<u32>,
    pub(super) plans: Option<Plans>,
    pub(super) in_shadow: bool,
}

/// The limits of callers whose requests carry one of these values.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) by: PlanSource,
    pub(super) limits: HashMap<Box<str>, Range<u32>>,
}

impl RuleSet {
    /// What a request is charged to; none if no rule is for it.
    pub(super) fn find<B>(&self, request: &Request<B>) -> Result<Option<RuleKey>, MissingKey> {
        let (method, mut room) = (Methods::of(request.method()), Vec::new());
        // In a router this is the route: other spellings of a path lead nowhere else.
        let path = matched_route(request).unwrap_or_else(|| request.uri().path());
        let candidates = self.routes.candidates(path, &mut room);
        let mut candidates = candidates
            .iter()
            .filter(|candidate| candidate.is_for(method));
        let found = match self.applies {
            Applies::First => loop {
                let Some(candidate) = candidates.next() else {
                    break None;
                };
                let rule = &self.rules[candidate.rule as usize];
                if let Some((key, limits)) = rule.find(request)? {
                    break RuleKey::of_one_rule(&self.limits, candidate.cost, key, limits);
                }
            },
            Applies::All => {
                let (mut charges, mut cost, mut last) = (ChargeList::new(), 0, None);
                for candidate in candidates {
                    // Of the routes of one rule the first counts.
                    if last.replace(candidate.rule) == Some(candidate.rule) {
                        continue;
                    }
                    let rule = &self.rules[candidate.rule as usize];
                    if let Some((key, limits)) = rule.find(request)? {
                        cost = candidate.cost.max(cost);
                        charges.extend(limits.map(|limit| Charge {
                            limit,
                            key: key.clone(),
                        }));
                    }
                }
                RuleKey::new(&self.limits, cost, charges)
            }
        };
        match found {
            None if self.refuses_unmatched => Err(no_rule()),
            found => Ok(found),
        }
    }
}

impl Rule {
    /// The key of a request, and the limits that it is charged to; none if the rule does not apply.
    #[inline]
    fn find<B>(&self, request: &Request<B>) -> Result<Option<(KeyValue, Range<u32>)>, MissingKey> {
        let key = match self.key.find(request) {
            Ok(Some(key)) => key,
            Ok(None) => return Ok(None),
            // A rule in shadow refuses nobody.
            Err(_) if self.in_shadow => return Ok(None),
            Err(rejection) => return Err(rejection),
        };
        let plan = self.plans.as_ref().and_then(|plans| {
            (plans.by).with_value(request, |value| plans.limits.get(value).cloned())
        });
        Ok(Some((key, plan.unwrap_or_else(|| self.limits.clone()))))
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.limits.names()).finish()
    }
}
