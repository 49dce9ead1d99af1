//! The store in memory: bounded, without a task, and decided under one shard lock.
//!
//! Each policy has a table of its own, cut into shards. A decision hashes the key once, locks one
//! shard, and steps the state in place.
//!
//! | question | file |
//! |---|---|
//! | how does it decide about a key, change what it was charged, and when does it get an entry | `table` |
//! | where is the state of a key while it is locked | `locked_state` |
//! | how do the entries of a shard lie in memory, and how does it grow | `entries` |
//! | which shard is a key in, and how many keys are there | `shards` |
//! | how do idle keys leave | `sweep` |
//! | what do new keys share when the table is full | `overflow` |
//! | how do several limits decide together | `several` |
//! | what decides about a key instead of its limit | `overrides` |
//! | how does it decide by the rules of a file | `rules` |
//! | which policy has which table | `policies`, `buckets` |
//! | when is a key's own `Drop` called | `deferred_drop` |
//!
//! The tables are `hashbrown`'s behind `parking_lot`'s locks. `dashmap` in their place was no
//! faster, took more memory, and needed `unsafe` to visit a few entries at a time; the figures are
//! in the changelog.

mod buckets;
mod deferred_drop;
mod entries;
mod locked_state;
mod overflow;
mod overrides;
mod policies;
#[cfg(feature = "rules")]
mod rules;
mod several;
mod shards;
mod sweep;
mod table;
#[cfg(test)]
mod tests;

use std::{fmt, future::Pending, sync::Arc};

use crate::{
    clock::{Clock, SystemClock},
    error::{ConfigError, or_panic},
    key::Key,
    store::{Answer, AsKey, Ask, Change, Decided, ImmediateStore, Store, Written},
};

use self::buckets::Tables;

pub use buckets::LocalBuckets;

const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Keeps the buckets in this process's memory; decides at once, without a future, and never fails.
///
/// - **Shared by clones**: cloning a store, a layer or a service never clones a budget.
/// - **Bounded**: at most [`max_keys`](LocalStoreBuilder::max_keys) keys per policy. Idle keys
///   leave inside ordinary calls, a few at a time. A key whose state differs from a fresh one is
///   never evicted; while the table is full of such keys, *new* keys share one overflow bucket
///   ([`usage`](Self::usage) counts its decisions), and a key that gets an entry later starts from
///   what that bucket owes.
/// - **Memory** per key: the key and the algorithm's state, plus one byte, in tables that are 7/16
///   to 7/8 full; with all of `max_keys`, if those are four hundred thousand to fifty million,
///   about 7/9 full.
/// - **Hashing** is seeded at random for each store and policy.
///
/// - **Policies**: each policy that was ever used keeps a table for as long as the store lives. So
///   [name](crate::algorithm::TokenBucket::named) a policy that is reloaded with new numbers, and
///   make no policies up from requests; the thousandth logs a warning.
///
/// One store serves one type of algorithm and one type of key; both are inferred from the layer.
/// Two policies on one store have buckets of their own.
///
/// # Example: two layers that share their buckets
///
/// ```
/// use tollgate::{Quota, RateLimiter};
/// use tollgate::{algorithm::TokenBucket, store::LocalStore};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = LocalStore::new();
/// let one = RateLimiter::new(TokenBucket::new(Quota::per_day(1)), store.clone());
/// let other = RateLimiter::new(TokenBucket::new(Quota::per_day(1)), store.clone());
///
/// assert!(one.check("bob").await?.is_admitted());
/// assert!(!other.check("bob").await?.is_admitted());
/// assert_eq!(store.usage().keys, 1);
/// # Ok::<(), tollgate::StoreError>(())
/// # }).unwrap();
/// ```
pub struct LocalStore<A: LocalBuckets<K>, K, C = SystemClock> {
    tables: Arc<A::Tables>,
    clock: C,
}

impl<A: LocalBuckets<K>, K> LocalStore<A, K> {
    /// An empty store for up to a million keys per policy, with the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A store with another clock or another bound.
    ///
    /// # Example: at most ten thousand keys
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter, algorithm::Gcra, store::LocalStore};
    ///
    /// let store = LocalStore::builder().max_keys(10_000).build();
    /// let limiter = RateLimiter::new(Gcra::new(Quota::per_second(5)), store.clone());
    /// # let _ = limiter.check("bob");
    /// assert_eq!(store.usage().keys, 0);
    /// ```
    pub fn builder() -> LocalStoreBuilder<A, K> {
        LocalStoreBuilder {
            clock: Box::new(SystemClock::new),
            max_keys: DEFAULT_MAX_KEYS,
            builds: std::marker::PhantomData,
        }
    }
}

impl<A: LocalBuckets<K>, K> Default for LocalStore<A, K> {
    fn default() -> Self {
        Self::new()
    }
}

/// How full a [`LocalStore`] is, over all its policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalUsage {
    /// How many keys have an entry, idle ones that have not left yet included.
    pub keys: usize,
    /// How many decisions and debits an overflow bucket took, because the store was full of live
    /// keys.
    pub overflow_decisions: u64,
}

impl<A: LocalBuckets<K>, K, C> LocalStore<A, K, C> {
    /// How full the store is.
    pub fn usage(&self) -> LocalUsage {
        let mut usage = LocalUsage::default();
        self.tables.add_to(&mut usage);
        usage
    }
}

impl<A: LocalBuckets<K>, K, C: Clone> Clone for LocalStore<A, K, C> {
    fn clone(&self) -> Self {
        Self {
            tables: Arc::clone(&self.tables),
            clock: self.clock.clone(),
        }
    }
}

impl<A: LocalBuckets<K>, K, C> fmt::Debug for LocalStore<A, K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore")
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

/// Builds a [`LocalStore`] with another clock or another bound.
pub struct LocalStoreBuilder<A, K, C = SystemClock> {
    /// Makes the clock at the end, so that nobody waits for the calibration of a
    /// [`SystemClock`] that is replaced.
    clock: Box<dyn FnOnce() -> C + Send + Sync>,
    max_keys: usize,
    builds: std::marker::PhantomData<fn() -> (A, K)>,
}

impl<A: LocalBuckets<K>, K, C> LocalStoreBuilder<A, K, C> {
    /// Reads the time from this clock: a [`ManualClock`](crate::clock::ManualClock) in tests.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> LocalStoreBuilder<A, K, D> {
        LocalStoreBuilder {
            clock: Box::new(|| clock),
            max_keys: self.max_keys,
            builds: self.builds,
        }
    }

    /// The most keys that have a bucket of their own, for each policy; by default a million.
    ///
    /// # Panics
    ///
    /// If it is 0; see [`try_max_keys`](Self::try_max_keys).
    #[must_use]
    #[track_caller]
    pub fn max_keys(self, keys: usize) -> Self {
        or_panic(self.try_max_keys(keys))
    }

    /// The most keys that have a bucket of their own, for each policy; by default a million.
    ///
    /// # Errors
    ///
    /// The number is 0.
    pub fn try_max_keys(self, keys: usize) -> Result<Self, ConfigError> {
        match keys {
            0 => Err(ConfigError::ZeroMaxKeys),
            max_keys => Ok(Self { max_keys, ..self }),
        }
    }

    /// The store.
    pub fn build(self) -> LocalStore<A, K, C> {
        LocalStore {
            tables: Arc::new(A::Tables::new(self.max_keys)),
            clock: (self.clock)(),
        }
    }
}

impl<A, K, C> fmt::Debug for LocalStoreBuilder<A, K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStoreBuilder")
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

impl<A: LocalBuckets<K, Tables: Send + Sync>, K: Key, C: Clock> ImmediateStore<A, K>
    for LocalStore<A, K, C>
{
}

impl<A: LocalBuckets<K, Tables: Send + Sync>, K: Key, C: Clock> Store<A, K>
    for LocalStore<A, K, C>
{
    type Deciding = Pending<Decided<A>>;
    type Writing = Pending<Written>;

    // Inlined always, as is what it calls: see `Table::decide_known`.
    #[inline(always)]
    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding> {
        Answer::Now(Ok(limit.decide_in(&self.tables, key, ask, &self.clock)))
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        limit.change_in(&self.tables, key, change, &self.clock);
        Answer::Now(Ok(()))
    }

    fn buckets_id(&self) -> usize {
        Arc::as_ptr(&self.tables).addr()
    }
}
