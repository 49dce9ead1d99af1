//! Decides by the rules of a file: a request has a list of limits, each with a key.
//!
//! Each limit has the table of its policy. Several are decided together, their locks taken in the
//! order of the policies, whatever the order in the file.

use crate::{
    clock::Clock,
    config::AnyState,
    rules::{Charge, Few, KeyValue, RuleKey, RuleLimits, RuleSnapshot},
    store::{AsKey, Ask, Change, Verdict},
};

use super::{
    LocalBuckets,
    deferred_drop::DeferredDrops,
    locked_state::OwnKey,
    overflow::Now,
    policies::PolicyTables,
    several::{DecidesTogether, KeyedLimit, decide},
};

impl LocalBuckets<RuleKey> for RuleLimits {
    type Tables = PolicyTables<KeyValue, AnyState>;

    // Inlined always: see `Table::decide_known`.
    #[inline(always)]
    fn decide_in<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        tables: &Self::Tables,
        key: &Q,
        ask: Ask,
        clock: &impl Clock,
    ) -> Verdict<RuleSnapshot> {
        match key.to_owned().charges {
            Few::One(Charge { limit, key }) => {
                let table = tables.table(limit.table_id());
                let verdict = table.decide(&*limit, &key, ask, clock);
                let snapshot = RuleSnapshot(Few::One((limit, verdict.snapshot)));
                Verdict::new(verdict.admitted, snapshot)
            }
            Few::Several(charges) => decide_several(tables, &charges, ask, &|| clock.now()),
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
        for (place, Charge { limit, key }) in key.charges().iter().enumerate() {
            if let Some(change) = change.of_part(|all| Some(all.each().nth(place)?.1)) {
                let mut drops = DeferredDrops::new();
                let table = tables.table(limit.table_id());
                table.change(&**limit, key, change, &|| clock.now(), &mut drops);
            }
        }
    }
}

/// Decides by all limits of a key together.
fn decide_several(
    tables: &PolicyTables<KeyValue, AnyState>,
    charges: &[Charge],
    ask: Ask,
    now: Now<'_>,
) -> Verdict<RuleSnapshot> {
    let members = charges.iter().map(|Charge { limit, key }| {
        let table = tables.table(limit.table_id());
        (limit, KeyedLimit::new(&**limit, table, OwnKey::Copied(key)))
    });
    let mut members: Vec<_> = members.collect();
    let admitted = {
        let mut all: Vec<_> = members.iter_mut().collect();
        all.sort_unstable_by_key(|(limit, _)| limit.table_id().as_u64());
        let all = (all.into_iter()).map(|(_, member)| member as &mut dyn DecidesTogether);
        decide(&mut all.collect::<Vec<_>>(), ask, now)
    };
    let snapshots = members.into_iter();
    let snapshots = snapshots.filter_map(|(limit, it)| Some((limit.clone(), it.snapshot?)));
    let snapshot = RuleSnapshot(snapshots.collect());
    Verdict::new(admitted, snapshot)
}
