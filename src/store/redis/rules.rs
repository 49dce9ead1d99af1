//! Decides by the rules of a file: a request has a list of limits, each with a key.

use std::sync::Arc;

use crate::{
    algorithm::{LazyStatus, Limit, ScriptReply, Scripted, Shadow, shadow::ShadowSnapshot},
    config::with_algorithm,
    rules::{RuleKey, RuleLimit, RuleLimits, RuleSnapshot},
};

use super::{
    Shared,
    arguments::KeyQuery,
    limits::{RedisLimit, admission},
};

impl RedisLimit<RuleKey> for RuleLimits {
    fn queries(&self, shared: &Shared, key: &RuleKey) -> Vec<KeyQuery> {
        let each = key.charges().iter().map(|charge| {
            let limit = key.limits().limit(charge.limit);
            // The policy of the algorithm itself: a limit that is written in Rust under this name,
            // with the key of the same extractor, has the same bucket.
            with_algorithm!(&limit.limit, |rule| match limit.in_shadow {
                true => shared.query(&Shadow::new(rule.clone()), &charge.key, rule.policy_id()),
                false => shared.query(rule, &charge.key, rule.policy_id()),
            })
        });
        each.collect()
    }

    fn read_all(&self, key: &RuleKey, reply: &mut ScriptReply) -> Option<RuleSnapshot> {
        let each = key.charges().iter().map(|charge| {
            let limit = key.limits().limit(charge.limit);
            Some((charge.limit, read(limit, reply)?))
        });
        let snapshots = each.collect::<Option<Vec<_>>>()?;
        Some(RuleSnapshot::several(Arc::clone(key.limits()), snapshots))
    }

    fn admissions(&self, snapshot: &RuleSnapshot) -> Vec<Vec<f64>> {
        let each = snapshot.each().map(|(limit, snapshot)| {
            let mut numbers = Vec::new();
            if limit.in_shadow {
                numbers.push(f64::from(!snapshot.would_refuse));
            }
            with_algorithm!(&limit.limit, |rule| {
                numbers.extend(admission(rule, &snapshot.snapshot));
            });
            numbers
        });
        each.collect()
    }
}

/// Reads the snapshot of a limit.
fn read(limit: &RuleLimit, reply: &mut ScriptReply) -> Option<ShadowSnapshot<LazyStatus>> {
    with_algorithm!(&limit.limit, |rule| match limit.in_shadow {
        true => Shadow::new(rule.clone()).read(reply),
        false => rule.read(reply).map(|snapshot| ShadowSnapshot {
            snapshot,
            would_refuse: false
        }),
    })
}
