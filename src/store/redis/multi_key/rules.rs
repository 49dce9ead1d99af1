//! Decides by rules: about all limits together that apply to a request.

use std::{any::TypeId, sync::Arc};

use crate::{
    algorithm::{ScriptReply, Scripted, Shadow, shadow::ShadowSnapshot},
    config::{AnySnapshot, with_algorithm},
    rules::{Charge, RuleKey, RuleLimit, RuleLimits, RuleSnapshot},
    store::{Answer, AsKey, Decided, Store, Verdict, Written},
};

use super::{
    super::{
        Later, RedisStore, Shared,
        arguments::Units,
        cross_slot::{Answers, KeyQuery, MultiKeyQuery},
        failure, reply,
        scripts::ScriptKey,
    },
    key_query,
};

/// How many bits tell the algorithm of a limit, and whether it is in shadow.
const BITS_OF_A_LIMIT: u32 = 6;

/// The query for one limit, and a number for its type of script.
fn query_of(shared: &Shared, limit: &RuleLimit, charge: &Charge) -> (KeyQuery, u128) {
    // The policy of the algorithm itself: a limit that is written in Rust under this name, with
    // the key of the same extractor, has the same bucket.
    let query = with_algorithm!(limit.algorithm(), |rule, _wrap| match limit.in_shadow {
        true => key_query(shared, (&Shadow::new(rule.clone()), &charge.key), &[]),
        false => key_query(shared, (rule, &charge.key), &[]),
    });
    let kind = u128::from(limit.algorithm().number());
    (query, 1 + 2 * kind + u128::from(limit.in_shadow))
}

fn query(shared: &Arc<Shared>, key: &RuleKey, cost: u32) -> MultiKeyQuery {
    let charges = key.charges();
    let mut queries = Vec::with_capacity(charges.len());
    let mut shape = 0;
    for charge in charges {
        let (query, kind) = query_of(shared, key.limits().limit(charge.limit), charge);
        shape = shape << BITS_OF_A_LIMIT | kind;
        queries.push(query);
    }
    MultiKeyQuery {
        shared: Arc::clone(shared),
        script_key: ScriptKey {
            limits: TypeId::of::<RuleLimits>(),
            present: shape,
        },
        queries,
        cost,
    }
}

type Snapshot = ShadowSnapshot<AnySnapshot>;

/// Reads the snapshot of a limit.
fn read_one(limit: &RuleLimit, reply: &mut ScriptReply<'_>) -> Option<Snapshot> {
    with_algorithm!(limit.algorithm(), |rule, wrap| {
        match limit.in_shadow {
            true => Shadow::new(rule.clone())
                .read(reply)
                .map(|shadow| ShadowSnapshot {
                    snapshot: wrap(shadow.snapshot),
                    would_refuse: shadow.would_refuse,
                }),
            false => rule.read(reply).map(|snapshot| ShadowSnapshot {
                snapshot: wrap(snapshot),
                would_refuse: false,
            }),
        }
    })
}

fn read(query: &MultiKeyQuery, key: &RuleKey, answers: &Answers) -> Option<Verdict<RuleSnapshot>> {
    let limits =
        || (key.charges().iter()).map(|charge| (charge.limit, key.limits().limit(charge.limit)));
    let verdict = match answers {
        Answers::OneForAll(answer) => {
            let scripts: Vec<_> = query.scripts().limits.iter().collect();
            reply::read_with(&scripts, answer, query.cost, |reply| {
                let each = limits().map(|(number, limit)| Some((number, read_one(limit, reply)?)));
                each.collect::<Option<Vec<_>>>()
            })?
        }
        Answers::OneForEach(answers) => {
            let mut admitted = true;
            let each = limits().zip(&query.queries).zip(answers);
            let each = each.map(|(((number, limit), one), answer)| {
                let script = &(one.scripts)(&query.shared.script_cache).script;
                let read = |reply: &mut ScriptReply<'_>| read_one(limit, reply);
                let verdict = reply::read_with(&[script], answer, query.cost, read)?;
                admitted &= verdict.admitted;
                Some((number, verdict.snapshot))
            });
            let snapshot = each.collect::<Option<Vec<_>>>()?;
            Verdict { admitted, snapshot }
        }
    };
    Some(Verdict {
        admitted: verdict.admitted,
        snapshot: RuleSnapshot::several(Arc::clone(key.limits()), verdict.snapshot),
    })
}

fn judged(query: MultiKeyQuery, key: RuleKey, charges: bool) -> Later<Decided<RuleLimits>> {
    let query = Arc::new(query);
    Box::pin(async move {
        let shared = &query.shared;
        let answers = match charges {
            true => query.decide().await,
            false => query.peek().await,
        };
        let verdict = answers
            .and_then(|answers| read(&query, &key, &answers).ok_or_else(failure::unreadable));
        if charges {
            shared.count(&verdict);
        }
        shared.health.record(&verdict, query.states());
        verdict
    })
}

// Keeps this impl out of the compiler's message where a store does not fit.
#[diagnostic::do_not_recommend]
impl Store<RuleLimits, RuleKey> for RedisStore {
    type Deciding = Later<Decided<RuleLimits>>;
    type Writing = Later<Written>;

    fn decide<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<RuleLimits>, Self::Deciding> {
        let key = key.to_owned();
        Answer::Later(judged(query(&self.shared, &key, cost), key, true))
    }

    fn peek<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<RuleLimits>, Self::Deciding> {
        let key = key.to_owned();
        Answer::Later(judged(query(&self.shared, &key, cost), key, false))
    }

    fn refund<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        cost: u32,
    ) -> Answer<Written, Self::Writing> {
        Answer::Later(query(&self.shared, &key.to_owned(), cost).change(Units::Refund(cost)))
    }

    fn debit<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
        units: u32,
    ) -> Answer<Written, Self::Writing> {
        if units == 0 {
            return Answer::Now(Ok(()));
        }
        Answer::Later(query(&self.shared, &key.to_owned(), units).change(Units::Debit(units)))
    }

    fn reset<Q: AsKey<RuleKey> + ?Sized>(
        &self,
        _limits: &RuleLimits,
        key: &Q,
    ) -> Answer<Written, Self::Writing> {
        Answer::Later(query(&self.shared, &key.to_owned(), 0).reset())
    }

    fn buckets_id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn withdraw(&self, _limits: &RuleLimits, key: &RuleKey, admission: &RuleSnapshot, cost: u32) {
        for (charge, (limit, snapshot)) in key.charges().iter().zip(admission.each()) {
            if limit.in_shadow {
                continue;
            }
            let (query, _) = query_of(&self.shared, limit, charge);
            with_algorithm!(limit.algorithm(), &snapshot.snapshot, |rule, own| {
                self.shared.withdraw(rule, query.keys, own, cost)
            });
        }
    }
}
