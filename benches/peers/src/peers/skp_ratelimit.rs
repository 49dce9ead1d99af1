//! `Algorithm::check_and_record` over `MemoryStorage`, by each of its algorithms.

use skp_ratelimit::{Algorithm, Decision, GCRA, MemoryStorage, Quota};

use super::{Limiter, Reply, Telling};
use crate::{limit::Limit, ready};

/// A limit, as skp-ratelimit says it.
pub fn quota(limit: Limit) -> Quota {
    Quota::with_period_and_burst(limit.interval, limit.burst.into())
}

/// skp-ratelimit's limiter by this algorithm.
pub struct SkpRatelimit<A = GCRA> {
    algorithm: A,
    storage: MemoryStorage,
    quota: Quota,
}

impl SkpRatelimit {
    /// Holds all keys to this limit by GCRA, as its README begins.
    pub fn new(limit: Limit) -> Self {
        Self::by(GCRA::new(), quota(limit))
    }
}

impl<A> SkpRatelimit<A> {
    /// Holds all keys to a quota of skp-ratelimit's.
    pub fn by(algorithm: A, quota: Quota) -> Self {
        Self {
            algorithm,
            storage: MemoryStorage::new(),
            quota,
        }
    }
}

impl<A: Algorithm> SkpRatelimit<A> {
    #[inline]
    fn decide(&self, key: &str) -> Decision {
        let decision = self
            .algorithm
            .check_and_record(&self.storage, key, &self.quota);
        ready(decision).expect("memory")
    }
}

impl<A: Algorithm + Send + Sync> Limiter<String> for SkpRatelimit<A> {
    #[inline]
    fn admits(&self, key: &String) -> bool {
        self.decide(key).is_allowed()
    }
}

impl<A: Algorithm> Telling for SkpRatelimit<A> {
    fn ask(&self, key: &str) -> Reply {
        let decision = self.decide(key);
        match decision.is_allowed() {
            true => Ok(()),
            false => Err(decision.info().retry_after),
        }
    }
}
