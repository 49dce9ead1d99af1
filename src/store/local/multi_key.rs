//! Decides about several keys together, under a lock for each.
//!
//! The locks are taken in the order of the keys, and for each key the shard's before the overflow
//! bucket's. So no two threads deadlock.

use std::{borrow::Cow, future::Pending, sync::Arc};

use crate::{
    algorithm::Algorithm,
    clock::{Clock, Timestamp},
    each_of::EachOf,
    key::Key,
    store::{Answer, AsKey, Decided, ImmediateStore, Store, Verdict, Written},
};

use super::{
    LocalBuckets, LocalStore, Usage,
    buckets::Tables,
    call::{Call, SettledHold},
    deferred_drop::DeferredDrops,
    locked::Locked,
    policies::Policies,
    table::{AskedKey, Table},
};

/// What was decided under the locks.
struct Done<V> {
    /// Whether the cost was charged.
    is_charged: bool,
    /// Whether a sweep is due afterwards.
    sweep_is_due: bool,
    now: Timestamp,
    verdict: V,
}

/// Calls the closure with the limit of this key, under its lock; without a key, with none.
fn with_state<A: Algorithm, K: Key, V>(
    table: &Table<K, A::State>,
    key: &mut AskedKey<'_, K>,
    call: Call<'_, A>,
    drops: &mut DeferredDrops<K, A::State>,
    decide: impl FnOnce(Option<Locked<'_, A>>) -> Done<V>,
) -> Done<V> {
    let (done, sweep_is_due) = table.with_state(key, call, drops, |state| {
        let done = decide(state.map(|state| Locked::new(call, state)));
        (done.is_charged, done)
    });
    Done {
        sweep_is_due: done.sweep_is_due || sweep_is_due,
        ..done
    }
}

/// Calls the closure with what this key is judged by, under its lock; without a key, with none.
fn with_unchanged_state<A: Algorithm, K: Key, V>(
    table: &Table<K, A::State>,
    key: &mut AskedKey<'_, K>,
    call: Call<'_, A>,
    drops: &mut DeferredDrops<K, A::State>,
    look: impl FnOnce(Option<&A::State>) -> V,
) -> V {
    match key.as_deref() {
        None => look(None),
        Some(key) => table.with_unchanged_state(key, call, drops, |state| look(Some(state))),
    }
}

/// Takes the locks of all keys, one inside the other, and decides under them.
macro_rules! under_locks {
    ($with:ident, [$($all:ident)+], $decide:expr, $tables:expr, $keys:expr, $calls:expr,
     $drops:expr,) => {
        $decide($($all),+)
    };
    ($with:ident, [$($all:ident)+], $decide:expr, $tables:expr, $keys:expr, $calls:expr,
     $drops:expr, $state:ident $place:tt $($rest:tt)*) => {
        $with($tables.$place, &mut $keys.$place, $calls.$place, &mut $drops.$place, |$state| {
            under_locks!($with, [$($all)+], $decide, $tables, $keys, $calls, $drops, $($rest)*)
        })
    };
}

/// Implements [`ImmediateStore`] and [`Store`] for tuples: Rust has no other way to say "a tuple of
/// any length".
macro_rules! each_of {
    ($($Algorithm:ident $Key:ident $state:ident $place:tt),+) => {
        impl<$($Algorithm: Algorithm, $Key),+> LocalBuckets<EachOf<($(Option<$Key>,)+)>>
            for EachOf<($($Algorithm,)+)>
        {
            type Tables = ($(Policies<$Key, $Algorithm::State>,)+);
        }

        impl<$($Algorithm, $Key),+> Tables for ($(Policies<$Key, $Algorithm>,)+) {
            fn new(max_keys: usize) -> Self {
                ($(Policies::<$Key, $Algorithm>::new(max_keys),)+)
            }

            fn usage(&self) -> Usage {
                let places = [$(self.$place.usage()),+];
                Usage {
                    keys: places.iter().map(|usage| usage.keys).sum(),
                    overflow_decisions: places.iter().map(|usage| usage.overflow_decisions).sum(),
                }
            }
        }

        // Keeps the compiler from listing one of these for each length where a store does not fit.
        #[diagnostic::do_not_recommend]
        impl<$($Algorithm: Algorithm, $Key: Key,)+ Cl: Clock>
            ImmediateStore<EachOf<($($Algorithm,)+)>, EachOf<($(Option<$Key>,)+)>>
            for LocalStore<EachOf<($($Algorithm,)+)>, EachOf<($(Option<$Key>,)+)>, Cl>
        {
            fn decide_now<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                cost: u32,
            ) -> Verdict<($(Option<$Algorithm::Snapshot>,)+)> {
                let clock = || self.clock.now();
                let EachOf(keys) = keys.to_owned();
                let mut keys = ($(keys.$place.map(Cow::Owned),)+);
                let calls = ($(Call::new(&limits.$place, cost, &clock),)+);
                let tables = ($(self.tables.$place.table(&limits.$place),)+);
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                let decide = |$($state: Option<Locked<'_, $Algorithm>>),+| {
                    let now = clock();
                    let admitted = true $(&& $state.as_ref().is_none_or(|state| state.admits(now)))+;
                    let snapshot = ($($state.map(|state| state.charge_if(admitted, now)),)+);
                    let verdict = Verdict { admitted, snapshot };
                    Done { is_charged: admitted && cost > 0, sweep_is_due: false, now, verdict }
                };
                let Done { sweep_is_due, now, verdict, .. } = under_locks!(
                    with_state, [$($state)+], decide, tables, keys, calls, drops, $($state $place)+
                );
                $(
                    let sweep_is_due_at = sweep_is_due.then_some(now);
                    tables.$place.after_a_decision(&limits.$place, sweep_is_due_at);
                )+
                $(drops.$place.key(keys.$place.map(Cow::into_owned));)+
                verdict
            }

            fn peek_now<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                cost: u32,
            ) -> Verdict<($(Option<$Algorithm::Snapshot>,)+)> {
                let clock = || self.clock.now();
                let EachOf(keys) = keys.to_owned();
                let mut keys = ($(keys.$place.map(Cow::Owned),)+);
                let calls = ($(Call::new(&limits.$place, cost, &clock),)+);
                let tables = ($(self.tables.$place.table(&limits.$place),)+);
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                let decide = |$($state: Option<&$Algorithm::State>),+| {
                    let now = clock();
                    $(let $state = $state.map(|state| limits.$place.look(state, cost, now));)+
                    let admitted = true $(&& $state.as_ref().is_none_or(|(admitted, _)| *admitted))+;
                    let snapshot = ($($state.map(|(_, snapshot)| snapshot),)+);
                    Verdict { admitted, snapshot }
                };
                let verdict = under_locks!(
                    with_unchanged_state, [$($state)+], decide, tables, keys, calls, drops, $($state $place)+
                );
                $(drops.$place.key(keys.$place.map(Cow::into_owned));)+
                verdict
            }

            fn refund_now<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                cost: u32,
            ) {
                let clock = || self.clock.now();
                let EachOf(keys) = keys.to_owned();
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                $(
                    if let Some(key) = &keys.$place {
                        let limit = &limits.$place;
                        let call = Call::new(limit, cost, &clock);
                        self.tables.$place.table(limit).refund(key, call);
                    }
                    drops.$place.key(keys.$place);
                )+
            }

            fn debit_now<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                units: u32,
            ) {
                let clock = || self.clock.now();
                let EachOf(keys) = keys.to_owned();
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                $(
                    if let Some(key) = &keys.$place {
                        let limit = &limits.$place;
                        let call = Call::new(limit, units, &clock);
                        self.tables.$place.table(limit).debit(key, call, &mut drops.$place);
                    }
                    drops.$place.key(keys.$place);
                )+
            }

            fn settle_now<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                admission: &($(Option<$Algorithm::Snapshot>,)+),
                (held, spent): (u32, u32),
            ) {
                let clock = || self.clock.now();
                let EachOf(keys) = keys.to_owned();
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                $(
                    if let (Some(key), Some(admission)) = (&keys.$place, &admission.$place) {
                        let limit = &limits.$place;
                        let call = Call::new(limit, held, &clock);
                        let table = self.tables.$place.table(limit);
                        table.settle(key, SettledHold { admission, spent }, call, &mut drops.$place);
                    }
                    drops.$place.key(keys.$place);
                )+
            }

            fn reset_now<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
            ) {
                let EachOf(keys) = keys.to_owned();
                let mut drops = ($(DeferredDrops::<$Key, $Algorithm::State>::new(),)+);
                $(
                    if let Some(key) = &keys.$place {
                        let limit = &limits.$place;
                        self.tables.$place.table(limit).reset(key, limit, &mut drops.$place);
                    }
                    drops.$place.key(keys.$place);
                )+
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($Algorithm: Algorithm, $Key: Key,)+ Cl: Clock>
            Store<EachOf<($($Algorithm,)+)>, EachOf<($(Option<$Key>,)+)>>
            for LocalStore<EachOf<($($Algorithm,)+)>, EachOf<($(Option<$Key>,)+)>, Cl>
        {
            type Deciding = Pending<Decided<EachOf<($($Algorithm,)+)>>>;
            type Writing = Pending<Written>;

            fn decide<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                limits: &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                cost: u32,
            ) -> Answer<Decided<EachOf<($($Algorithm,)+)>>, Self::Deciding> {
                Answer::Now(Ok(self.decide_now(limits, keys, cost)))
            }

            fn peek<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                limits: &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                cost: u32,
            ) -> Answer<Decided<EachOf<($($Algorithm,)+)>>, Self::Deciding> {
                Answer::Now(Ok(self.peek_now(limits, keys, cost)))
            }

            fn refund<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                limits: &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                cost: u32,
            ) -> Answer<Written, Self::Writing> {
                self.refund_now(limits, keys, cost);
                Answer::Now(Ok(()))
            }

            fn debit<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                limits: &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                units: u32,
            ) -> Answer<Written, Self::Writing> {
                self.debit_now(limits, keys, units);
                Answer::Now(Ok(()))
            }

            fn settle<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                limits: &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                admission: &($(Option<$Algorithm::Snapshot>,)+),
                held_and_spent: (u32, u32),
            ) -> Answer<Written, Self::Writing> {
                self.settle_now(limits, keys, admission, held_and_spent);
                Answer::Now(Ok(()))
            }

            fn end<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                keys: &Q,
                admission: &($(Option<$Algorithm::Snapshot>,)+),
            ) -> Answer<Written, Self::Writing> {
                let clock = || self.clock.now();
                let EachOf(keys) = keys.to_owned();
                $(
                    if let (Some(key), Some(admission)) = (&keys.$place, &admission.$place)
                        && $Algorithm::IN_FLIGHT
                    {
                        let limit = &limits.$place;
                        let call = Call::new(limit, 1, &clock);
                        self.tables.$place.table(limit).end(key, admission, call);
                    }
                )+
                Answer::Now(Ok(()))
            }

            fn reset<Q: AsKey<EachOf<($(Option<$Key>,)+)>> + ?Sized>(
                &self,
                limits: &EachOf<($($Algorithm,)+)>,
                keys: &Q,
            ) -> Answer<Written, Self::Writing> {
                self.reset_now(limits, keys);
                Answer::Now(Ok(()))
            }

            fn buckets_id(&self) -> usize {
                Arc::as_ptr(&self.tables).addr()
            }

            fn withdraw(
                &self,
                EachOf(limits): &EachOf<($($Algorithm,)+)>,
                EachOf(keys): &EachOf<($(Option<$Key>,)+)>,
                admission: &($(Option<$Algorithm::Snapshot>,)+),
                cost: u32,
            ) {
                let clock = || self.clock.now();
                $(
                    if let (Some(key), Some(admission)) = (&keys.$place, &admission.$place) {
                        let limit = &limits.$place;
                        let call = Call::new(limit, cost, &clock);
                        self.tables.$place.table(limit).withdraw(key, admission, call);
                    }
                )+
            }
        }
    };
}

each_of!(A K a 0, B L b 1);
each_of!(A K a 0, B L b 1, C M c 2);
each_of!(A K a 0, B L b 1, C M c 2, D N d 3);
each_of!(A K a 0, B L b 1, C M c 2, D N d 3, E O e 4);
each_of!(A K a 0, B L b 1, C M c 2, D N d 3, E O e 4, F P f 5);
