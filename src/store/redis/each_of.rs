//! The buckets of several keys, decided together.

use std::{any::TypeId, sync::Arc};

use crate::{
    algorithm::{PolicyId, Scripted},
    each_of::EachOf,
    key::{Key, PortableKey},
    store::{Answer, AsKey, Decided, Store, Verdict, Written},
};

use super::{
    Later, RedisStore, Shared,
    across::{Answers, Place, Question},
    failure,
    numbers::push,
    reply,
    scripts::{ScriptCache, Scripts},
};

/// What is asked about the key in one place of a limit: one whose policy is that of a place before
/// it is another policy.
fn place<A: Scripted, K: PortableKey>(
    shared: &Shared,
    (limit, key): (&A, &K),
    before: &[PolicyId],
) -> Place {
    let scripts = shared.script_cache.scripts::<A>();
    let own = limit.policy_id();
    let same = before.iter().filter(|&&policy| policy == own);
    let policy = same.fold(own, |policy, same| policy.and(*same));
    let mut parameters = Vec::with_capacity(128);
    limit.parameters(&mut |parameter| push(&mut parameters, parameter as f64));
    let limit = limit.clone();
    Place {
        script: A::script,
        scripts: ScriptCache::<Scripts>::scripts::<A>,
        keys: shared.keys(policy, scripts, key),
        parameters,
        admission: Box::new(move |members, answer| {
            let mut numbers = Vec::new();
            if let Some(verdict) = reply::read(&limit, members, answer, 1) {
                limit.admission(&verdict.snapshot, &mut |number| {
                    push(&mut numbers, number as f64);
                });
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

            fn question<$($Algorithm: Scripted, $Key: Key + PortableKey),+>(
                shared: &Arc<Shared>,
                EachOf(limits): &Limits<$($Algorithm),+>,
                EachOf(keys): &Keys<$($Key),+>,
                cost: u32,
            ) -> Question {
                let policies = [$(limits.$place.policy_id()),+];
                let mut places = Vec::with_capacity(policies.len());
                let mut present = 0;
                $(
                    if let Some(key) = &keys.$place {
                        present |= 1 << $place;
                        places.push(place(shared, (&limits.$place, key), &policies[..$place]));
                    }
                )+
                Question {
                    shared: Arc::clone(shared),
                    limits: (TypeId::of::<Limits<$($Algorithm),+>>(), present),
                    places,
                    now: shared.now(),
                    cost,
                }
            }

            fn read<$($Algorithm: Scripted),+>(
                EachOf(limits): &Limits<$($Algorithm),+>,
                question: &Question,
                answers: &Answers,
            ) -> Option<Verdict<($(Option<$Algorithm::Snapshot>,)+)>> {
                let is_present = |place: u8| question.limits.1 & 1 << place != 0;
                let answers = match answers {
                    Answers::Apart(answers) => answers,
                    Answers::Together(answer) => {
                        let members = &question.scripts().members;
                        return reply::read_with(members, answer, question.cost, |reply| {
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
                            let scripts = question.shared.script_cache.scripts::<$Algorithm>();
                            let (members, answer) = (&scripts.members, answers.next()?);
                            let verdict = reply::read(&limits.$place, members, answer, question.cost)?;
                            admitted &= verdict.admitted;
                            Some(verdict.snapshot)
                        }
                        false => None,
                    },
                )+);
                Some(Verdict { admitted, snapshot })
            }

            fn judged<$($Algorithm: Scripted),+>(
                question: Question,
                limits: Limits<$($Algorithm),+>,
                charges: bool,
            ) -> Later<Decided<Limits<$($Algorithm),+>>> {
                let question = Arc::new(question);
                Box::pin(async move {
                    let shared = &question.shared;
                    let answers = match charges {
                        true => question.decide().await,
                        false => question.peek().await,
                    };
                    let verdict = answers.and_then(|answers| {
                        read(&limits, &question, &answers).ok_or_else(failure::unreadable)
                    });
                    if charges {
                        shared.count(&verdict);
                    }
                    shared.health.ended(&verdict, question.states());
                    verdict
                })
            }

            // Of a store that does not fit, the compiler's message would list one of these for each length.
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
                    let question = question(&self.shared, limits, &keys.to_owned(), cost);
                    Answer::Later(judged(question, limits.clone(), true))
                }

                fn peek<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                    cost: u32,
                ) -> Answer<Decided<Limits<$($Algorithm),+>>, Self::Deciding> {
                    let question = question(&self.shared, limits, &keys.to_owned(), cost);
                    Answer::Later(judged(question, limits.clone(), false))
                }

                fn refund<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                    cost: u32,
                ) -> Answer<Written, Self::Writing> {
                    let question = Arc::new(question(&self.shared, limits, &keys.to_owned(), cost));
                    Answer::Later(Box::pin(async move {
                        let refunded = question.refund().await;
                        question.shared.health.ended(&refunded, question.states());
                        refunded
                    }))
                }

                fn reset<Q: AsKey<Keys<$($Key),+>> + ?Sized>(
                    &self,
                    limits: &Limits<$($Algorithm),+>,
                    keys: &Q,
                ) -> Answer<Written, Self::Writing> {
                    let question = question(&self.shared, limits, &keys.to_owned(), 0);
                    Answer::Later(Box::pin(async move {
                        for place in question.places {
                            let deleted = question.shared.delete(place.keys).await;
                            question.shared.health.ended(&deleted, []);
                            deleted?;
                        }
                        Ok(())
                    }))
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
                            let place = place(&self.shared, (limit, key), &policies[..$place]);
                            self.shared.withdraw(limit, place.keys, admission, cost);
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
