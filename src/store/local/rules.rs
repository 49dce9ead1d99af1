//! Decides by the rules of a file: a request has a list of limits, each with a key.
//!
//! Each limit has the table of its policy. Several are decided together, their locks taken in the
//! order of the policies, whatever the order in the file.

use std::{borrow::Cow, sync::Arc};

use arrayvec::ArrayVec;

use crate::{
    algorithm::{Algorithm, shadow::ShadowState},
    clock::Clock,
    config::AnyState,
    rules::{Charge, KeyValue, MAX_LIMITS, RuleKey, RuleLimits, RuleSnapshot},
    store::{AsKey, Ask, Change, Verdict},
};

use super::{
    LocalBuckets,
    deferred_drop::DeferredDrops,
    policies::Policies,
    several::{DecidesTogether, Member, decide},
};

impl LocalBuckets<RuleKey> for RuleLimits {
    type Tables = Policies<KeyValue, ShadowState<AnyState>>;

    fn decide_in<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        ask: Ask,
        clock: &impl Clock,
    ) -> Verdict<RuleSnapshot> {
        let key = key.to_owned();
        let limits = key.limits();
        if let [Charge { limit, key: value }] = key.charges() {
            let rule = limits.limit(*limit);
            let Verdict { admitted, snapshot } = tables.table(rule).decide(rule, value, ask, clock);
            let snapshot = RuleSnapshot::one(Arc::clone(limits), (*limit, snapshot));
            return Verdict { admitted, snapshot };
        }
        let mut members: ArrayVec<_, MAX_LIMITS> = (key.charges().iter())
            .map(|Charge { limit, key }| {
                let rule = limits.limit(*limit);
                (
                    *limit,
                    Member::new(rule, tables.table(rule), Cow::Borrowed(key)),
                )
            })
            .collect();
        let admitted = {
            let mut all: ArrayVec<_, MAX_LIMITS> = members.iter_mut().map(|(_, it)| it).collect();
            all.sort_unstable_by_key(|member| member.limit().policy_id().as_u64());
            let all = all
                .into_iter()
                .map(|member| member as &mut dyn DecidesTogether);
            decide(&mut all.collect::<ArrayVec<_, MAX_LIMITS>>(), ask, &|| {
                clock.now()
            })
        };
        let snapshots =
            (members.into_iter()).filter_map(|(limit, member)| Some((limit, member.snapshot()?)));
        Verdict {
            admitted,
            snapshot: RuleSnapshot::several(Arc::clone(limits), snapshots),
        }
    }

    fn change_in<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        change: Change<'_, RuleSnapshot>,
        clock: &impl Clock,
    ) {
        let key = key.to_owned();
        for (place, Charge { limit, key: value }) in key.charges().iter().enumerate() {
            let rule = key.limits().limit(*limit);
            if let Some(change) = change.of_part(|all| Some(all.each().nth(place)?.1)) {
                let mut drops = DeferredDrops::new();
                let table = tables.table(rule);
                table.change(rule, value, change, &|| clock.now(), &mut drops);
            }
        }
    }
}
