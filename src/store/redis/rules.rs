//! Decides by the rules of a file: a request has a list of limits, each with a key.

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
            // The policy of the algorithm itself: a limit that is written in Rust under this name,
            // with the key of the same extractor, has the same bucket.
            with_algorithm!(&*charge.limit, |rule| {
                shared.query(rule, &charge.key, rule.policy_id())
            })
        });
        each.collect()
    }

    fn read_all(&self, key: &RuleKey, reply: &mut ScriptReply) -> Option<RuleSnapshot> {
        let each = key.charges().iter().map(|charge| {
            let snapshot = with_algorithm!(&*charge.limit, |rule| read(rule, reply));
            Some((charge.limit.clone(), snapshot?))
        });
        each.collect::<Option<_>>().map(RuleSnapshot)
    }

    fn admissions(&self, snapshot: &RuleSnapshot) -> Vec<Vec<f64>> {
        let each = snapshot
            .each()
            .map(|(limit, snapshot)| with_algorithm!(limit, |rule| admission(rule, snapshot)));
        each.collect()
    }
}
