//! Decides by the rules of a file: a request has a list of limits, each with a key.

use std::sync::Arc;

use crate::{
    algorithm::{Limit, ScriptReply},
    config::with_algorithm,
    rules::{RuleKey, RuleLimits, RuleSnapshot},
};

use super::{
    Shared,
    arguments::KeyQuery,
    limits::{RedisLimit, admission, read},
};

impl RedisLimit<RuleKey> for RuleLimits {
    fn queries(&self, shared: &Shared, key: &RuleKey) -> Vec<KeyQuery> {
        let each = key.charges().iter().map(|charge| {
            let limit = key.limits().limit(charge.limit);
            // The policy of the algorithm itself: a limit that is written in Rust under this name,
            // with the key of the same extractor, has the same bucket.
            with_algorithm!(limit, |rule| {
                shared.query(rule, &charge.key, rule.policy_id())
            })
        });
        each.collect()
    }

    fn read_all(&self, key: &RuleKey, reply: &mut ScriptReply) -> Option<RuleSnapshot> {
        let each = key.charges().iter().map(|charge| {
            let limit = key.limits().limit(charge.limit);
            let snapshot = with_algorithm!(limit, |rule| read(rule, reply));
            Some((charge.limit, snapshot?))
        });
        let snapshots = each.collect::<Option<Vec<_>>>()?;
        Some(RuleSnapshot::several(Arc::clone(key.limits()), snapshots))
    }

    fn admissions(&self, snapshot: &RuleSnapshot) -> Vec<Vec<f64>> {
        let each = snapshot
            .each()
            .map(|(limit, snapshot)| with_algorithm!(limit, |rule| admission(rule, snapshot)));
        each.collect()
    }
}
