//! What a limit asks of Redis: a list of queries, one for each key.

use crate::{
    algorithm::{Limit, PolicyId, ScriptReply, Scripted},
    each_of::EachOf,
    key::{Key, PortableKey},
};

use super::{Shared, arguments::KeyQuery};

/// A limit that a [`RedisStore`](super::RedisStore) can decide by for keys of this type: an
/// algorithm that is [`Scripted`], or an [`EachOf`] of several.
///
/// It is there for the bounds of functions that are generic over a limit; its items are not part of
/// the public interface.
pub(crate) trait RedisLimit<K>: Limit {
    /// A query for each key that there is.
    fn queries(&self, shared: &Shared, key: &K) -> Vec<KeyQuery>;

    /// Reads what was decided about them.
    fn read_all(&self, key: &K, reply: &mut ScriptReply) -> Option<Self::Snapshot>;

    /// The numbers of the admission of each of them.
    fn admissions(&self, snapshot: &Self::Snapshot) -> Vec<Vec<f64>>;
}

impl<A: Scripted, K: Key + PortableKey> RedisLimit<K> for A {
    fn queries(&self, shared: &Shared, key: &K) -> Vec<KeyQuery> {
        vec![shared.query(self, key, self.policy_id())]
    }

    fn read_all(&self, _key: &K, reply: &mut ScriptReply) -> Option<A::Snapshot> {
        read(self, reply)
    }

    fn admissions(&self, snapshot: &A::Snapshot) -> Vec<Vec<f64>> {
        vec![admission(self, snapshot)]
    }
}

/// Reads what was decided by the limit, or instead of it.
pub(super) fn read<A: Scripted>(limit: &A, reply: &mut ScriptReply) -> Option<A::Snapshot> {
    match reply.as_slice().first()?.overridden {
        Some(overriding) => {
            let reply = reply.next()?;
            Some(overriding.decide(limit, reply.cost, reply.now).1)
        }
        None => Scripted::read(limit, reply),
    }
}

/// The numbers by which an admission is taken back or settled: of each member whether it was
/// charged, then those of the algorithm.
pub(super) fn admission<A: Scripted>(limit: &A, snapshot: &A::Snapshot) -> Vec<f64> {
    let mut numbers = Vec::new();
    limit.describe(snapshot, &mut |policy| {
        numbers.push(f64::from(policy.in_shadow() != Some(true)));
    });
    limit.admission(snapshot, &mut |number| numbers.push(number as f64));
    numbers
}

/// The policy of the limit at a place of several: a bucket belongs to its place, also if another
/// place has the same policy.
fn policy_at(policies: &[PolicyId], place: usize) -> PolicyId {
    let own = policies[place];
    let same = policies[..place].iter().filter(|&&policy| policy == own);
    same.fold(own, |policy, same| policy.and(*same))
}

macro_rules! each_of {
    ($count:literal: $($Algorithm:ident $Key:ident $place:tt),+) => {
        impl<$($Algorithm: Scripted, $Key: Key + PortableKey),+>
            RedisLimit<EachOf<($(Option<$Key>,)+)>> for EachOf<($($Algorithm,)+)>
        {
            fn queries(
                &self,
                shared: &Shared,
                keys: &EachOf<($(Option<$Key>,)+)>,
            ) -> Vec<KeyQuery> {
                let policies = [$(self.0.$place.policy_id()),+];
                let queries = [$(
                    keys.0.$place.as_ref().map(|key| {
                        shared.query(&self.0.$place, key, policy_at(&policies, $place))
                    })
                ),+];
                queries.into_iter().flatten().collect()
            }

            fn read_all(
                &self,
                keys: &EachOf<($(Option<$Key>,)+)>,
                reply: &mut ScriptReply,
            ) -> Option<Self::Snapshot> {
                Some(($(
                    match &keys.0.$place {
                        Some(_) => Some(read(&self.0.$place, reply)?),
                        None => None,
                    },
                )+))
            }

            fn admissions(&self, snapshot: &Self::Snapshot) -> Vec<Vec<f64>> {
                let admissions = [$(
                    snapshot.$place.as_ref().map(|snapshot| admission(&self.0.$place, snapshot))
                ),+];
                admissions.into_iter().flatten().collect()
            }
        }
    };
}

two_to_six!(each_of);
