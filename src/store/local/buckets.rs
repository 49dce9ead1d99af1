//! The tables of a limit.

use crate::{algorithm::Algorithm, limit::Limit};

use super::{Usage, policies::Policies};

/// A limit whose buckets a [`LocalStore`](super::LocalStore) keeps for keys of this type: one table
/// per policy, and for [each of several](crate::EachOf) algorithms tables of its own.
///
/// It only names the type of the store's tables. Every [`Algorithm`] has it, for every key.
pub trait LocalBuckets<K>: Limit {
    /// The tables.
    type Tables: Tables;
}

/// The tables of a limit.
pub trait Tables {
    /// Tables for this many keys per policy.
    fn new(max_keys: usize) -> Self;

    /// How full they are.
    fn usage(&self) -> Usage;
}

impl<A: Algorithm, K> LocalBuckets<K> for A {
    type Tables = Policies<K, A::State>;
}

impl<K, S> Tables for Policies<K, S> {
    fn new(max_keys: usize) -> Self {
        Self::new(max_keys)
    }

    fn usage(&self) -> Usage {
        self.usage()
    }
}
