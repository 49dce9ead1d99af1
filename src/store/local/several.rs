//! Several limits that decide together, each about a key of its own: under the locks of all.
//!
//! The locks are taken in the order of the list, and for each key the shard's before the overflow
//! bucket's. So no two threads deadlock.

use arrayvec::ArrayVec;

use crate::{
    algorithm::{KeyLimit, Override},
    clock::{Clock, Timestamp},
    each_of::EachOf,
    key::Key,
    store::{AsKey, Ask, Change, Verdict},
};

use super::{
    LocalBuckets, LocalUsage,
    buckets::Tables,
    deferred_drop::DeferredDrops,
    locked_state::{LockedState, OwnKey},
    overflow::Now,
    policies::PolicyTables,
    table::Table,
};

/// One of several limits that decide together, and its key.
pub(super) struct KeyedLimit<'a, A: KeyLimit, K: Key> {
    limit: &'a A,
    table: &'a Table<K, A::State>,
    /// Until it is locked.
    key: Option<OwnKey<'a, K>>,
    place: Option<Result<LockedState<'a, K, A::State>, Override>>,
    sweep_is_due: bool,
    drops: DeferredDrops<K, A::State>,
    /// What was decided.
    pub(super) snapshot: Option<A::Snapshot>,
}

/// A [`KeyedLimit`], whatever its limit and key are.
pub(super) trait DecidesTogether {
    fn lock(&mut self, cost: u32, now: Now<'_>);

    /// Whether it admits the cost. It is locked.
    fn admits(&mut self, cost: u32, now: Timestamp) -> bool;

    /// Charges the cost, if it is to be charged, and takes the snapshot.
    fn decide(&mut self, ask: Ask, now: Timestamp);

    fn unlock(&mut self, is_charged: bool);

    /// What is left to do without a lock.
    fn afterwards(&mut self, now: Timestamp);
}

/// Decides about the cost by all of them: says whether all admit it.
pub(super) fn decide(members: &mut [&mut dyn DecidesTogether], ask: Ask, clock: Now<'_>) -> bool {
    let mut locked = Locked {
        members,
        is_charged: false,
    };
    for member in &mut *locked.members {
        member.lock(ask.charge(), clock);
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
        member.afterwards(now);
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

impl<'a, A: KeyLimit, K: Key> KeyedLimit<'a, A, K> {
    pub(super) fn new(limit: &'a A, table: &'a Table<K, A::State>, key: OwnKey<'a, K>) -> Self {
        Self {
            limit,
            table,
            key: Some(key),
            place: None,
            sweep_is_due: false,
            drops: DeferredDrops::new(),
            snapshot: None,
        }
    }
}

impl<A: KeyLimit, K: Key> DecidesTogether for KeyedLimit<'_, A, K> {
    fn lock(&mut self, cost: u32, now: Now<'_>) {
        let (limit, charge, drops) = (self.limit, (Some(cost), now), &mut self.drops);
        let key = self.key.take();
        self.place = key.map(|key| self.table.place_of(limit, key, charge, drops));
    }

    fn admits(&mut self, cost: u32, now: Timestamp) -> bool {
        match &mut self.place {
            Some(Ok(place)) => self.limit.judge(place.state(), cost, now),
            Some(Err(overriding)) => overriding.decide(self.limit, cost, now).0,
            None => true,
        }
    }

    fn decide(&mut self, ask: Ask, now: Timestamp) {
        let (limit, place) = (self.limit, self.place.as_mut());
        self.snapshot = place.map(|place| match place {
            Ok(place) => ask.decide(limit, place.state(), now).snapshot,
            Err(overriding) => overriding.decide(limit, ask.cost(), now).1,
        });
    }

    fn unlock(&mut self, is_charged: bool) {
        if let Some(Ok(place)) = self.place.take() {
            self.sweep_is_due = place.leave(&self.table.overflow, is_charged, &mut self.drops);
        }
    }

    fn afterwards(&mut self, now: Timestamp) {
        if self.sweep_is_due {
            self.table.shards.sweep_next(self.limit, now);
        }
        self.table.overflow.warn_once_if_used();
    }
}

/// How many limits an `EachOf` has at most.
const MAX_PLACES: usize = 6;

macro_rules! each_of {
    ($count:literal: $($Algorithm:ident $Key:ident $place:tt),+) => {
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
                let (EachOf(limits), EachOf(mut keys)) = (self, keys.to_owned());
                let mut members = ($(
                    keys.$place.is_some().then(|| {
                        let (limit, key) = (&limits.$place, OwnKey::Moved(&mut keys.$place));
                        KeyedLimit::new(limit, tables.$place.table(limit.policy_id()), key)
                    }),
                )+);
                let admitted = {
                    let mut all = ArrayVec::<&mut dyn DecidesTogether, MAX_PLACES>::new();
                    $(all.extend(members.$place.as_mut().map(|member| member as _));)+
                    decide(&mut all, ask, &|| clock.now())
                };
                let snapshot = ($(members.$place.and_then(|member| member.snapshot),)+);
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
                // Dropped at the end: a key's own `Drop` may panic.
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                $(
                    let of_limit = change.of_part(|admission| admission.$place.as_ref());
                    if let (Some(key), Some(change)) = (&keys.$place, of_limit) {
                        let (limit, drops) = (&limits.$place, &mut drops.$place);
                        let table = tables.$place.table(limit.policy_id());
                        table.change(limit, key, change, &|| clock.now(), drops);
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

two_to_six!(each_of);
