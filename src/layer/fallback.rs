//! What happens to a request while the store is unavailable: a fixed choice, or the decision of a
//! limiter in this process.

use std::time::Duration;

use crate::{
    algorithm::Limit,
    choice::Choose,
    decision::Decision,
    error::{StoreError, StoreErrorKind},
    key::Key,
    limiter::RateLimiter,
    store::{Ask, ImmediateStore},
    store_error::{self, HandleStoreError},
};

/// Says what happens to a request while the store is unavailable: a [`HandleStoreError`], or a
/// [`RateLimiter`] that answers at once.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what happens to a request while the store is unavailable",
    label = "neither `OnStoreError::Refuse` nor `OnStoreError::Admit`, nor a limiter",
    note = "use one of the two, a closure: `|error: &StoreError| OnStoreError::Refuse`, or a limiter that counts in this process: `RateLimiter::new(smaller, LocalStore::new())`",
    note = "such a limiter has no observer of its own: the layer's observer sees its decisions"
)]
pub trait Fallback<Req, K: Key> {
    /// Whether it charges what the store admits, too.
    const MIRRORS_CHARGES: bool = false;

    /// Charges a request that the store has admitted.
    #[inline]
    fn mirror_charge(&self, _request: &Req, _key: &K, _cost: u32) {}

    /// Decides in the place of a store that failed.
    fn decide_instead(
        &self,
        error: &StoreError,
        request: &Req,
        key: &K,
        cost: u32,
    ) -> FallbackOutcome;
}

/// What happens to a request that the store could not decide about.
pub enum FallbackOutcome {
    /// It is answered with the store's error.
    Fail,
    /// It passes, and nothing is counted.
    Pass,
    /// A limiter in this process has decided, and delays what it admits for so long.
    Decided(Box<Decision>, Duration),
}

// Without this the compiler's message would not mention limiters.
#[diagnostic::do_not_recommend]
impl<Req, K: Key, H: HandleStoreError> Fallback<Req, K> for H {
    fn decide_instead(
        &self,
        error: &StoreError,
        _request: &Req,
        _key: &K,
        _cost: u32,
    ) -> FallbackOutcome {
        match store_error::admits(self, error) {
            true => FallbackOutcome::Pass,
            false => FallbackOutcome::Fail,
        }
    }
}

impl<Req, K, C, S> Fallback<Req, K> for RateLimiter<C, S>
where
    K: Key,
    C: Choose<Req>,
    S: ImmediateStore<C::Limit, K>,
{
    const MIRRORS_CHARGES: bool = true;

    /// Charges only what fits: units that the store admits beyond the smaller limit must not lock
    /// anybody out when that limit decides.
    fn mirror_charge(&self, request: &Req, key: &K, cost: u32) {
        let choice = self.algorithm().choose(request);
        let limit = self.algorithm().limit(&choice);
        let verdict = self.store().decide_now(limit, key, Ask::Charge(cost));
        if !verdict.admitted && cost > 1 {
            let left = limit.decision_of(&verdict.snapshot).remaining();
            let left = u32::try_from(left).unwrap_or(u32::MAX).min(cost);
            self.store().decide_now(limit, key, Ask::Charge(left));
        }
    }

    fn decide_instead(
        &self,
        error: &StoreError,
        request: &Req,
        key: &K,
        cost: u32,
    ) -> FallbackOutcome {
        const { nothing_is_to_be_given_back::<C::Limit>() };
        if error.kind() != StoreErrorKind::Unavailable {
            return FallbackOutcome::Fail;
        }
        let choice = self.algorithm().choose(request);
        let limit = self.algorithm().limit(&choice);
        let verdict = self.store().decide_now(limit, key, Ask::Charge(cost));
        let decision = limit.decision_of(&verdict.snapshot).degraded();
        FallbackOutcome::Decided(Box::new(decision), limit.delay_of(&verdict.snapshot))
    }
}

/// Fails to compile for a limit whose holds or places nobody would give back.
const fn nothing_is_to_be_given_back<L: Limit>() {
    assert!(
        !L::IN_FLIGHT && !L::SETTLES,
        "a limiter in `.on_store_error(..)` charges each request at once: it cannot be `InFlight` or `.settled()`"
    );
}
