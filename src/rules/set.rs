//! The rules of one file: which of them apply to a request, and what they charge.

use std::{collections::BTreeMap, fmt, sync::Arc};

use http::{Request, StatusCode};

use crate::{
    config::AnyAlgorithm,
    key::{MissingKey, matched_route},
};

use super::{
    key::{Charge, RuleKey},
    key_source::{KeySource, PlanSource},
    matched::MatchedRoutes,
    routes::{Methods, Routes},
};

/// The rules of one file.
#[derive(Default)]
pub(crate) struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) routes: Routes,
    pub(super) matched: MatchedRoutes,
    /// Whether all matching rules apply to a request, or the first one that is enforced and those
    /// in shadow before it.
    pub(super) all_apply: bool,
    pub(super) refuses_unmatched: bool,
}

pub(super) struct Rule {
    pub(super) key: KeySource,
    pub(super) limits: Limits,
    pub(super) plans: Option<Plans>,
    pub(super) in_shadow: bool,
}

/// The limits of requests with one of these values.
pub(super) struct Plans {
    pub(super) by: PlanSource,
    pub(super) limits: BTreeMap<Box<str>, Limits>,
}

pub(super) type Limits = Box<[Arc<AnyAlgorithm>]>;

impl RuleSet {
    /// The limits that a request is charged to; `None` if no rule matches it.
    #[inline]
    pub(super) fn find<B>(&self, request: &Request<B>) -> Result<Option<RuleKey>, MissingKey> {
        // In a router this is the route, so another spelling of the path escapes no rule.
        let path = matched_route(request).unwrap_or_else(|| request.uri().path());
        let mut room = Vec::new();
        let candidates = self.routes.matching(path, &mut room);
        if self.matched.counts() {
            // Whatever their methods.
            self.matched.count(candidates.iter().map(|it| it.route));
        }
        let method = Methods::of(request.method());
        let (mut charges, mut last) = (Vec::new(), None);
        // The largest cost of a rule that is enforced, and of one in shadow.
        let (mut cost, mut shadow_cost) = (None, None);
        let mut refuses_unmatched = self.refuses_unmatched;
        for candidate in candidates {
            // Only the first matching route of a rule counts.
            if !candidate.is_for(method) || last == Some(candidate.rule) {
                continue;
            }
            last = Some(candidate.rule);
            let rule = &self.rules[candidate.rule as usize];
            let key = match rule.key.find(request) {
                Ok(Some(key)) => key,
                Ok(None) => continue,
                // A rule in shadow rejects nobody.
                Err(_) if rule.in_shadow => {
                    refuses_unmatched = false;
                    continue;
                }
                Err(rejection) => return Err(rejection),
            };
            let limits = rule.limits_of(request);
            // A rule in shadow takes no request away from the rules after it.
            let is_last = !self.all_apply && !rule.in_shadow;
            if is_last && charges.is_empty() {
                let (cost, charges) = (candidate.cost, Charge::each(limits, &key).collect());
                return Ok(Some(RuleKey { cost, charges }));
            }
            let largest = match rule.in_shadow {
                true => &mut shadow_cost,
                false => &mut cost,
            };
            *largest = Some(candidate.cost).max(*largest);
            charges.extend(Charge::each(limits, &key));
            if is_last {
                break;
            }
        }
        match cost.or(shadow_cost) {
            Some(cost) => {
                let charges = charges.into_iter().collect();
                Ok(Some(RuleKey { cost, charges }))
            }
            None if refuses_unmatched => {
                let no_rule = "no rule matches this request";
                Err(MissingKey::new(StatusCode::FORBIDDEN, no_rule))
            }
            None => Ok(None),
        }
    }
}

impl Rule {
    /// Whether no later rule is asked about a request of one of its routes.
    pub(super) fn always_applies(&self) -> bool {
        !self.in_shadow && self.key.applies_always()
    }

    /// The limits that a request is charged to.
    #[inline]
    fn limits_of<B>(&self, request: &Request<B>) -> &Limits {
        let plans = self.plans.as_ref();
        let plan = plans.and_then(|plans| plans.limits.get(&*plans.by.value(request)?));
        plan.unwrap_or(&self.limits)
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.rules.iter().flat_map(|rule| {
            let of_plans = rule.plans.iter().flat_map(|plans| plans.limits.values());
            rule.limits.iter().chain(of_plans.flatten())
        });
        f.debug_list().entries(limits.map(|it| it.name())).finish()
    }
}
