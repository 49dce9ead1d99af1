//! tollgate's side of each comparison.

use tollgate::{
    Quota, RateLimiter,
    algorithm::{KeyLimit, TokenBucket},
    key::Key,
    store::{Answer, AsKey, Ask, LocalStore, Store},
};

use crate::{limit::Limit, peers::Limiter, ready};

/// The quota and burst of a limit.
pub fn token_bucket(limit: Limit) -> TokenBucket {
    TokenBucket::new(Quota::one_every(limit.interval)).burst(limit.burst.into())
}

/// `RateLimiter::check`, asked whether it admits, as every peer is.
pub struct Check<A: KeyLimit, K: Key>(RateLimiter<A, LocalStore<A, K>>);

impl<A: KeyLimit, K: Key> Check<A, K> {
    /// In a store of its own.
    pub fn new(algorithm: A) -> Self {
        Self(RateLimiter::new(algorithm, LocalStore::new()))
    }
}

impl<A: KeyLimit, K: Key + AsKey<K>> Limiter<K> for Check<A, K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        let decision = ready(self.0.check(key)).expect("a store in memory does not fail");
        decision.is_admitted()
    }
}

/// What the layer does for an admitted request without header fields.
pub struct Bare<A: KeyLimit, K: Key> {
    algorithm: A,
    store: LocalStore<A, K>,
}

impl<A: KeyLimit, K: Key> Bare<A, K> {
    /// In a store of its own.
    pub fn new(algorithm: A) -> Self {
        let store = LocalStore::new();
        Self { algorithm, store }
    }
}

impl<A: KeyLimit, K: Key + AsKey<K>> Limiter<K> for Bare<A, K> {
    #[inline]
    fn admits(&self, key: &K) -> bool {
        match self.store.decide(&self.algorithm, key, Ask::Charge(1)) {
            Answer::Now(Ok(verdict)) => verdict.admitted,
            _ => unreachable!("a store in memory answers now"),
        }
    }
}
