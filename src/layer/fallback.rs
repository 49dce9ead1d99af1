//! What happens to a request while the store is unavailable: a fixed choice, or the decision of a
//! limiter in this process.

use crate::{
    algorithm::Limit,
    choice::Choose,
    decision::Decision,
    error::StoreError,
    key::Key,
    limiter::RateLimiter,
    store::{Ask, ImmediateStore},
    store_error::OnStoreError,
};

/// Says what happens to a request while the store is unavailable: an [`OnStoreError`], a closure
/// that returns one, or a [`RateLimiter`] that answers at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what happens to a request while the store is unavailable",
    label = "neither `OnStoreError::Refuse` nor `OnStoreError::Admit`, nor a limiter",
    note = "use one of the two, a closure: `|error: &StoreError| OnStoreError::Refuse`, or a limiter that counts in this process: `RateLimiter::new(smaller, LocalStore::new())`",
    note = "such a limiter has no observer of its own: the layer's observer sees its decisions"
)]
pub(crate) trait Fallback<Req, K> {
    /// Charges a request that the store has admitted.
    #[inline]
    fn mirror_charge(&self, _request: &Req, _key: &K, _cost: u32) {}

    /// Decides in the place of a store that is unavailable.
    fn decide_instead(&self, error: &StoreError, request: &Req, key: &K, cost: u32) -> Instead;
}

/// The decision of a limiter in this process, or what happens to a request that nobody decides
/// about.
pub(super) type Instead = Result<Box<Decision>, OnStoreError>;

impl<Req, K> Fallback<Req, K> for OnStoreError {
    fn decide_instead(&self, _: &StoreError, _: &Req, _: &K, _: u32) -> Instead {
        Err(*self)
    }
}

// Without this the compiler would say "expected a closure" for every other type.
#[diagnostic::do_not_recommend]
impl<Req, K, F: Fn(&StoreError) -> OnStoreError> Fallback<Req, K> for F {
    fn decide_instead(&self, error: &StoreError, _: &Req, _: &K, _: u32) -> Instead {
        Err(self(error))
    }
}

impl<Req, K, C, S> Fallback<Req, K> for RateLimiter<C, S>
where
    K: Key,
    C: Choose<Req>,
    S: ImmediateStore<C::Limit, K>,
{
    /// Charges only what fits: units that the store admits beyond the smaller limit must not lock
    /// anybody out when that limit decides.
    fn mirror_charge(&self, request: &Req, key: &K, cost: u32) {
        let choice = self.algorithm.choose(request);
        let limit = self.algorithm.limit(&choice);
        let verdict = self.store.decide(limit, key, Ask::Charge(cost)).at_once();
        if !verdict.admitted && cost > 1 {
            let left = limit.decision_of(&verdict.snapshot).remaining();
            let left = u32::try_from(left).unwrap_or(u32::MAX).min(cost);
            self.store.decide(limit, key, Ask::Charge(left)).at_once();
        }
    }

    fn decide_instead(&self, _: &StoreError, request: &Req, key: &K, cost: u32) -> Instead {
        const { nothing_is_to_be_given_back::<C::Limit>() };
        let choice = self.algorithm.choose(request);
        let limit = self.algorithm.limit(&choice);
        let verdict = self.store.decide(limit, key, Ask::Charge(cost)).at_once();
        Ok(Box::new(limit.decision_of(&verdict.snapshot).degraded()))
    }
}

/// Fails to compile for a limit whose holds or places nobody would give back.
const fn nothing_is_to_be_given_back<L: Limit>() {
    assert!(
        !L::IN_FLIGHT && !L::SETTLES,
        "a limiter in `.on_store_error(..)` charges each request at once: it cannot be `InFlight` or `.settled()`"
    );
}
