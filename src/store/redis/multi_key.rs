//! Decides about several keys together.

use std::{any::TypeId, sync::Arc};

use crate::{
    algorithm::{PolicyId, Scripted},
    each_of::EachOf,
    key::{Key, PortableKey},
    limit::Limit,
    store::{Answer, AsKey, Decided, Store, Verdict, Written},
};

use super::{
    Later, RedisStore, Shared,
    arguments::{Place, Units, told},
    cross_slot::{Answers, KeyQuery, MultiKeyQuery},
    failure,
    in_flight::delivered,
    reply,
    scripts::{ScriptCache, ScriptKey, Scripts},
};

#[cfg(feature = "rules")]
mod rules;

/// The query for one of the keys. If a limit before it has the same policy, it gets another policy
/// id: the two do not share buckets.
fn key_query<A: Scripted, K: PortableKey>(
    shared: &Shared,
    (limit, key): (&A, &K),
    before: &[PolicyId],
) -> KeyQuery {
    let scripts = shared.script_cache.scripts::<A>();
    let own = limit.policy_id();
    let same = before.iter().filter(|&&policy| policy == own);
    let policy = same.fold(own, |policy, same| policy.and(*same));
    let (told, limit) = (told(limit), limit.clone());
    KeyQuery {
        script: A::script,
        scripts: ScriptCache::<Scripts>::scripts::<A>,
        keys: shared.keys(policy, scripts, key),
        told,
        place: Place::LOOK,
        admission: Box::new(move |script, answer| {
            let mut numbers = Vec::new();
            if let Some(verdict) = reply::read(&limit, script, answer, 1) {
                limit.admission(&verdict.snapshot, &mut |number| numbers.push(number as f64));
            }
            numbers
        }),
    }
}

/// Implements [`Store`] for tuples: Rust has no other way to say "a tuple of any length".
macro_rules! each_of {
    ($($Algorithm:ident $Key:ident $place:tt),+) => {
        const _: () = {
            type Limits<$($Algorithm),+> = EachOf<($($Algorithm,)+)>;
            type Keys<$($Key),+> = EachOf<($(Option<$Key>,)+)>;

            fn query<$($Algorithm: Scripted, $Key: Key + PortableKey),+>(
                shared: &Arc<Shared>,
                EachOf(limits): &Limits<$($Algorithm),+>,
                EachOf(keys): &Keys<$($Key),+>,
                cost: u32,
            ) -> MultiKeyQuery {
                let policies = [$(limits.$place.policy_id()),+];
                let mut queries = Vec::with_capacity(policies.len());
                let mut present = 0_u128;
                $(
                    if let Some(key) = &keys.$place {
                        present |= 1 << $place;
                        queries.push(key_query(shared, (&limits.$place, key), &policies[..$place]));
                    }
                )+
                MultiKeyQuery {
                    shared: Arc::clone(shared),
                    script_key: ScriptKey { limits: TypeId::of::<Limits<$($Algorithm),+>>(), present },
                    queries,
                    cost,
                }
            }

            fn read<$($Algorithm: Scripted),+>(
                EachOf(limits): &Limits<$($Algorithm),+>,
                query: &MultiKeyQuery,
                answers: &Answers,
            ) -> Option<Verdict<($(Option<$Algorithm::Snapshot>,)+)>> {
                let is_present = |place: u32| query.script_key.present & 1 << place != 0;
                let answers = match answers {
                    Answers::OneForEach(answers) => answers,
                    Answers::OneForAll(answer) => {
                        let scripts: Vec<_> = query.scripts().limits.iter().collect();
                        return reply::read_with(&scripts, answer, query.cost, |reply| {
                            Some(($(
                                match is_present($place) {
                                    true => Some(limits.$place.read(reply)?),
                                    false => None,
                                },
                            )+))
                        });
                    }
                };
                let (mut answers, mut admitted) = (answers.iter(), true);
                let snapshot = ($(
                    match is_present($place) {
                        true => {
                            let scripts = query.shared.script_cache.scripts::<$Algorithm>();
                            let (script, answer) = (&scripts.script, answers.next()?);
                            let verdict = reply::read(&limits.$place, script, answer, query.cost)?;
                            admitted &= verdict.admitted;
                            Some(verdict.snapshot)
                        }
                        false => None,
                    },
                )+);
                Some(Verdict { admitted, snapshot })
            }

            /// Counts the requests in flight that are asked for.
            fn begin<$($Algorithm: Scripted),+>(
                EachOf(limits): &Limits<$($Algorithm),+>,
                query: &mut MultiKeyQuery,
            ) {
                let (present, shared, cost) =
                    (query.script_key.present, Arc::clone(&query.shared), query.cost);
                let mut queries = query.queries.iter_mut();
                $(
                    if present & 1 << $place != 0
                        && let Some(query) = queries.next()
                    {
                        query.place = shared.begin(&limits.$place, &query.keys, cost);
                    }
                )+
            }

            fn judged<$($Algorithm: Scripted),+>(
                mut query: MultiKeyQuery,
                limits: Limits<$($Algorithm),+>,
                charges: bool,
            ) -> Later<Decided<Limits<$($Algorithm),+>>> {
                if charges {
                    begin(&limits, &mut query);
                }
                let query = Arc::new(query);
                Box::pin(async move {
                    let shared = &query.shared;
                    let answers = match charges {
                        true => query.decide().await,
                        false => query.peek().await,
                    };
                    let verdict = answers.and_then(|answers| {
                        read(&limits, &query, &answers).ok_or_else(failure::unreadable)
                    });
                    if charges {
                        shared.count(&verdict);
                    }
                    for one in &query.queries {
                        shared.has_begun::<Limits<$($Algorithm),+>>(&one.keys[0], one.place, &verdict);
                    }
                    shared.health.record(&verdict, query.states());
                    verdict
                })
            }

            // Keeps the compiler from listing one of these for each length where a store does not
            // fit.
            #[diagnostic::do_not_recommend]
            impl<$($Algorithm: Scripted, $Key: Key + PortableKey),+>
                Store<Limits<$($Algorithm),+>, Keys<$($Key),+>> for RedisStore
            {
                type Deciding = Later<Decided<Limits<$($Algorithm),+>>>;
                type Writing = Later<Written>;

                fn decide<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                    cost: u32,
                ) -> Answer<Decided<Limits<$($Algorithm),+>>, Self::Deciding> {
                    let keys = keys.to_owned();
                    let query = query(&self.shared, limits, &keys, cost);
                    let judged = judged(query, limits.clone(), true);
                    let holds = <Limits<$($Algorithm),+> as Limit>::IN_FLIGHT
                        || <Limits<$($Algorithm),+> as Limit>::SETTLES;
                    if !holds {
                        return Answer::Later(judged);
                    }
                    let (store, limits) = (self.clone(), limits.clone());
                    Answer::Later(delivered::<Limits<$($Algorithm),+>>(judged, move |admission| {
                        store.withdraw(&limits, &keys, admission, cost);
                    }))
                }

                fn peek<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                    cost: u32,
                ) -> Answer<Decided<Limits<$($Algorithm),+>>, Self::Deciding> {
                    let query = query(&self.shared, limits, &keys.to_owned(), cost);
                    Answer::Later(judged(query, limits.clone(), false))
                }

                fn refund<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                    cost: u32,
                ) -> Answer<Written, Self::Writing> {
                    Answer::Later(query(&self.shared, limits, &keys.to_owned(), cost).change(Units::Refund(cost)))
                }

                fn debit<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                    units: u32,
                ) -> Answer<Written, Self::Writing> {
                    if units == 0 {
                        return Answer::Now(Ok(()));
                    }
                    let query = query(&self.shared, limits, &keys.to_owned(), units);
                    Answer::Later(query.change(Units::Debit(units)))
                }

                fn settle<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    EachOf(limits): &Limits<$($Algorithm),+>,
                    keys: &Q,
                    admission: &($(Option<$Algorithm::Snapshot>,)+),
                    held_and_spent: (u32, u32),
                ) -> Answer<Written, Self::Writing> {
                    let EachOf(keys) = keys.to_owned();
                    let policies = [$(limits.$place.policy_id()),+];
                    let mut settling = Vec::new();
                    $(
                        if let (Some(key), Some(admission)) = (&keys.$place, &admission.$place) {
                            let limit = &limits.$place;
                            let query = key_query(&self.shared, (limit, key), &policies[..$place]);
                            let settled =
                                self.shared.settle(limit, query.keys, admission, held_and_spent);
                            settling.extend(settled);
                        }
                    )+
                    Answer::Later(Box::pin(async move {
                        let mut all = Ok(());
                        for settled in settling {
                            all = all.and(settled.await);
                        }
                        all
                    }))
                }

                fn end<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    EachOf(limits): &Limits<$($Algorithm),+>,
                    keys: &Q,
                    admission: &($(Option<$Algorithm::Snapshot>,)+),
                ) -> Answer<Written, Self::Writing> {
                    let EachOf(keys) = keys.to_owned();
                    let policies = [$(limits.$place.policy_id()),+];
                    let mut ending = Vec::new();
                    $(
                        if let (Some(key), Some(admission)) = (&keys.$place, &admission.$place)
                            && $Algorithm::IN_FLIGHT
                        {
                            let limit = &limits.$place;
                            let query = key_query(&self.shared, (limit, key), &policies[..$place]);
                            ending.extend(self.shared.end(limit, &query.keys, admission));
                        }
                    )+
                    Answer::Later(Box::pin(async move {
                        let mut all = Ok(());
                        for ended in ending {
                            all = all.and(ended.await);
                        }
                        all
                    }))
                }

                fn reset<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                ) -> Answer<Written, Self::Writing> {
                    Answer::Later(query(&self.shared, limits, &keys.to_owned(), 0).reset())
                }

                fn buckets_id(&self) -> usize {
                    Arc::as_ptr(&self.shared).addr()
                }

                fn withdraw(
                    &self,
                    EachOf(limits): &Limits<$($Algorithm),+>,
                    EachOf(keys): &Keys<$($Key),+>,
                    admission: &($(Option<$Algorithm::Snapshot>,)+),
                    cost: u32,
                ) {
                    let policies = [$(limits.$place.policy_id()),+];
                    $(
                        if let (Some(key), Some(admission)) = (&keys.$place, &admission.$place) {
                            let limit = &limits.$place;
                            let query = key_query(&self.shared, (limit, key), &policies[..$place]);
                            drop(self.shared.end(limit, &query.keys, admission));
                            self.shared.withdraw(limit, query.keys, admission, cost);
                        }
                    )+
                }
            }
        };
    };
}

each_of!(A K 0, B L 1);
each_of!(A K 0, B L 1, C M 2);
each_of!(A K 0, B L 1, C M 2, D N 3);
each_of!(A K 0, B L 1, C M 2, D N 3, E O 4);
each_of!(A K 0, B L 1, C M 2, D N 3, E O 4, F P 5);
