//! The rules of one file: which of them apply to a request, and what they charge.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use http::Request;

use crate::key::{MissingKey, matched_route};

use super::{
    key::{Charge, RuleKey},
    key_source::{KeySource, PlanSource, no_rule},
    limit::LimitTable,
    matched::MatchedRoutes,
    routes::{Candidate, Methods, Routes},
};

/// The rules of one file.
#[derive(Default)]
pub(crate) struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) limits: Arc<LimitTable>,
    pub(super) routes: Routes,
    pub(super) matched: MatchedRoutes,
    pub(super) applies: Applies,
    pub(super) refuses_unmatched: bool,
}

/// Which of the matching rules apply to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Applies {
    #[default]
    First,
    All,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: Box<str>,
    pub(super) key: KeySource,
    /// Its limits, by their numbers.
    pub(super) limits: Range<u32>,
    pub(super) plans: Option<Plans>,
    pub(super) in_shadow: bool,
}

/// The limits of requests with one of these values.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) by: PlanSource,
    pub(super) limits: HashMap<Box<str>, Range<u32>>,
}

impl RuleSet {
    /// The limits that a request is charged to; `None` if no rule matches it.
    #[inline]
    pub(super) fn find<B>(&self, request: &Request<B>) -> Result<Option<RuleKey>, MissingKey> {
        // In a router this is the route, so another spelling of the path escapes no rule.
        let path = matched_route(request).unwrap_or_else(|| request.uri().path());
        let mut room = Vec::new();
        let candidates = match self.routes.known(path) {
            Some(known) => known,
            None => self.routes.by_pattern(path, &mut room),
        };
        if self.matched.counts() {
            // Whatever their methods.
            let matched = candidates.iter().map(|candidate| candidate.route);
            self.matched.count(matched);
        }
        match self.applies {
            Applies::First => self.first_of(candidates, request),
            Applies::All => self.all_of(candidates, request),
        }
    }

    #[inline]
    fn first_of<B>(
        &self,
        candidates: &[Candidate],
        request: &Request<B>,
    ) -> Result<Option<RuleKey>, MissingKey> {
        let method = Methods::of(request.method());
        for candidate in candidates {
            if !candidate.is_for(method) {
                continue;
            }
            let rule = &self.rules[candidate.rule as usize];
            match rule.key.find(request) {
                Ok(Some(key)) => {
                    let (cost, limits) = (candidate.cost, rule.limits_of(request));
                    let key = RuleKey::of_one_rule(&self.limits, cost, key, limits);
                    return Ok(Some(key));
                }
                Ok(None) => {}
                Err(rejection) => rule.rejects(rejection)?,
            }
        }
        self.unmatched()
    }

    fn all_of<B>(
        &self,
        candidates: &[Candidate],
        request: &Request<B>,
    ) -> Result<Option<RuleKey>, MissingKey> {
        let method = Methods::of(request.method());
        let (mut charges, mut cost, mut last) = (Vec::new(), 0, None);
        for candidate in candidates {
            // Only the first matching route of a rule counts.
            if !candidate.is_for(method) || last.replace(candidate.rule) == Some(candidate.rule) {
                continue;
            }
            let rule = &self.rules[candidate.rule as usize];
            match rule.key.find(request) {
                Ok(None) => {}
                Ok(Some(key)) => {
                    cost = candidate.cost.max(cost);
                    charges.extend(Charge::each(rule.limits_of(request), &key));
                }
                Err(rejection) => rule.rejects(rejection)?,
            }
        }
        match charges.is_empty() {
            true => self.unmatched(),
            false => Ok(Some(RuleKey::new(&self.limits, cost, charges))),
        }
    }

    /// The result for a request that no rule matches.
    fn unmatched(&self) -> Result<Option<RuleKey>, MissingKey> {
        match self.refuses_unmatched {
            true => Err(no_rule()),
            false => Ok(None),
        }
    }
}

impl Rule {
    /// The limits that a request is charged to.
    #[inline]
    fn limits_of<B>(&self, request: &Request<B>) -> Range<u32> {
        let plans = self.plans.as_ref();
        let plan = plans.and_then(|plans| plans.limits.get(&*plans.by.value(request)?));
        plan.unwrap_or(&self.limits).clone()
    }

    /// Rejects a request without a key, unless the rule is in shadow.
    fn rejects(&self, rejection: MissingKey) -> Result<(), MissingKey> {
        match self.in_shadow {
            true => Ok(()),
            false => Err(rejection),
        }
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.limits.names()).finish()
    }
}
