//! Several limits that decide together, each about a key of its own: under the locks of all.
//!
//! The locks are taken in the order of the list, and for each key the shard's before the overflow
//! bucket's. So no two threads deadlock.

use arrayvec::ArrayVec;

use crate::{
    algorithm::KeyLimit,
    clock::Clock,
    each_of::EachOf,
    key::Key,
    store::{AsKey, Ask, Change, Verdict},
};

use super::{
    LocalBuckets, LocalUsage,
    buckets::Tables,
    deferred_drop::DeferredDrops,
    locked_state::OwnKey,
    overflow::Now,
    policies::PolicyTables,
    table::{DecidesTogether, Visit},
};

/// Decides about the cost by all of them: says whether all admit it.
pub(super) fn decide(members: &mut [&mut dyn DecidesTogether], ask: Ask, clock: Now<'_>) -> bool {
    let mut locked = Locked {
        members,
        is_charged: false,
    };
    for member in &mut *locked.members {
        member.lock(ask.charge());
    }
    let (cost, now) = (ask.cost(), clock());
    let admitted = locked.members.iter_mut().all(|it| it.admits(cost, now));
    // What one of them refuses is charged to none.
    let ask = if admitted { ask } else { Ask::Look(cost) };
    for member in &mut *locked.members {
        member.decide(ask, now);
    }
    locked.is_charged = ask.charge() > 0;
    drop(locked);
    for member in members {
        member.afterwards();
    }
    admitted
}

/// Unlocks all of them when it is dropped, before anything that they hold is.
struct Locked<'a, 'm> {
    members: &'a mut [&'m mut dyn DecidesTogether],
    is_charged: bool,
}

impl Drop for Locked<'_, '_> {
    fn drop(&mut self) {
        for member in &mut *self.members {
            member.unlock(self.is_charged);
        }
    }
}

/// How many limits an `EachOf` has at most.
const MAX_PLACES: usize = 6;

/// Implements the traits for tuples: Rust has no other way to say "a tuple of any length".
macro_rules! each_of {
    ($($Algorithm:ident $Key:ident $place:tt),+) => {
        impl<$($Algorithm: KeyLimit, $Key: Key),+> LocalBuckets<EachOf<($(Option<$Key>,)+)>>
            for EachOf<($($Algorithm,)+)>
        {
            type Tables = ($(PolicyTables<$Key, $Algorithm::State>,)+);

            fn decide_in<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                tables: &Self::Tables,
                keys: &Q,
                ask: Ask,
                clock: &impl Clock,
            ) -> Verdict<Self::Snapshot> {
                let (EachOf(limits), EachOf(keys)) = (self, keys.to_owned());
                let now: Now<'_> = &|| clock.now();
                let mut members = ($(
                    keys.$place.map(|key| {
                        let (limit, key) = (&limits.$place, OwnKey::<$Key>::Moved(Some(key)));
                        Visit::new(limit, tables.$place.table(limit.policy_id()), key, now)
                    }),
                )+);
                let admitted = {
                    let mut all = ArrayVec::<&mut dyn DecidesTogether, MAX_PLACES>::new();
                    $(all.extend(members.$place.as_mut().map(|member| member as _));)+
                    decide(&mut all, ask, now)
                };
                let snapshot = ($(members.$place.and_then(|it| Some(it.verdict?.snapshot)),)+);
                Verdict::new(admitted, snapshot)
            }

            fn change_in<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                tables: &Self::Tables,
                keys: &Q,
                change: Change<'_, Self::Snapshot>,
                clock: &impl Clock,
            ) {
                let (EachOf(limits), EachOf(keys)) = (self, keys.to_owned());
                let now: Now<'_> = &|| clock.now();
                // Dropped at the end: a key's own `Drop` may panic.
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                $(
                    let of_limit = change.of_part(|admission| admission.$place.as_ref());
                    if let (Some(key), Some(change)) = (&keys.$place, of_limit) {
                        let (limit, key) = (&limits.$place, OwnKey::Copied(key));
                        let table = tables.$place.table(limit.policy_id());
                        let mut visit = Visit::new(limit, table, key, now);
                        visit.change(change);
                        drops.$place = visit.drops;
                    }
                    keys.$place.into_iter().for_each(|key| drops.$place.keep(Some(key), None));
                )+
            }
        }

        impl<$($Algorithm, $Key),+> Tables for ($(PolicyTables<$Key, $Algorithm>,)+) {
            fn new(max_keys: usize) -> Self {
                ($(PolicyTables::<$Key, $Algorithm>::new(max_keys),)+)
            }

            fn add_to(&self, usage: &mut LocalUsage) {
                $(self.$place.add_to(usage);)+
            }
        }
    };
}

each_of!(A K 0, B L 1);
each_of!(A K 0, B L 1, C M 2);
each_of!(A K 0, B L 1, C M 2, D N 3);
each_of!(A K 0, B L 1, C M 2, D N 3, E O 4);
each_of!(A K 0, B L 1, C M 2, D N 3, E O 4, F P 5);
