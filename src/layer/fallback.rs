//! What happens to a request while the store is unavailable: a fixed choice, or the decision of a
//! limiter in this process.

use std::{convert::Infallible, time::Duration};

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
    /// The snapshot of the layer's store, or of the limiter that decided in its place.
    type Snapshot<S: Clone + Send + 'static>: Send + 'static;

    /// What was decided in the store's place. The `Decision` is made only if somebody reads it:
    /// making it at once takes an eighth of the time of a decision while Redis is down (bench
    /// `outage`).
    type Decided;

    /// Whether it charges what the store admits, too.
    const MIRRORS_CHARGES: bool;

    /// Keeps a snapshot of the layer's store.
    fn stored<S: Clone + Send + 'static>(snapshot: S) -> Self::Snapshot<S>;

    /// The snapshot of the layer's store, or what was decided in its place.
    fn read<S: Clone + Send + 'static>(snapshot: &Self::Snapshot<S>) -> Result<&S, &Self::Decided>;

    /// The decision in the store's place.
    fn decision(&self, decided: &Self::Decided) -> Decision;

    /// Charges a request that the store has admitted.
    fn mirror_charge(&self, request: &Req, key: &K, cost: u32);

    /// Decides in the place of a store that failed.
    fn decide_instead<S: Clone + Send + 'static>(
        &self,
        error: &StoreError,
        request: &Req,
        key_and_cost: (&K, u32),
    ) -> FallbackOutcome<Self::Snapshot<S>>;
}

/// What happens to a request that the store could not decide about.
pub enum FallbackOutcome<Snapshot> {
    /// It is answered with the store's error.
    Failed,
    /// It passes, and nothing is counted.
    Uncounted,
    /// It passes after this delay.
    Admitted(Snapshot, Duration),
    /// It is refused.
    Refused(Decision),
}

// Without this the compiler's message would not mention limiters.
#[diagnostic::do_not_recommend]
impl<Req, K: Key, H: HandleStoreError> Fallback<Req, K> for H {
    type Snapshot<S: Clone + Send + 'static> = S;
    type Decided = Infallible;

    const MIRRORS_CHARGES: bool = false;

    #[inline]
    fn stored<S: Clone + Send + 'static>(snapshot: S) -> S {
        snapshot
    }

    #[inline]
    fn read<S: Clone + Send + 'static>(snapshot: &S) -> Result<&S, &Infallible> {
        Ok(snapshot)
    }

    fn decision(&self, decided: &Infallible) -> Decision {
        match *decided {}
    }

    #[inline]
    fn mirror_charge(&self, _request: &Req, _key: &K, _cost: u32) {}

    fn decide_instead<S: Clone + Send + 'static>(
        &self,
        error: &StoreError,
        _request: &Req,
        _key_and_cost: (&K, u32),
    ) -> FallbackOutcome<S> {
        match store_error::admits(self, error) {
            true => FallbackOutcome::Uncounted,
            false => FallbackOutcome::Failed,
        }
    }
}

/// A snapshot of the layer's store, or what was decided in its place.
pub enum StoredOrFallback<S, D> {
    /// The store has admitted the request.
    Stored(S),
    /// The limiter in this process has admitted it.
    Fallback(D),
}

/// The decision of a limiter in the store's place: which of its limits it used, and the bucket's
/// snapshot right after.
pub struct FallbackSnapshot<Choice, Snapshot> {
    choice: Choice,
    snapshot: Snapshot,
}

impl<Req, K, C, S> Fallback<Req, K> for RateLimiter<C, S>
where
    K: Key,
    C: Choose<Req>,
    S: ImmediateStore<C::Limit, K>,
{
    type Snapshot<T: Clone + Send + 'static> = StoredOrFallback<T, Self::Decided>;
    type Decided = FallbackSnapshot<C::Choice, <C::Limit as Limit>::Snapshot>;

    const MIRRORS_CHARGES: bool = true;

    #[inline]
    fn stored<T: Clone + Send + 'static>(snapshot: T) -> Self::Snapshot<T> {
        StoredOrFallback::Stored(snapshot)
    }

    #[inline]
    fn read<T: Clone + Send + 'static>(snapshot: &Self::Snapshot<T>) -> Result<&T, &Self::Decided> {
        match snapshot {
            StoredOrFallback::Stored(snapshot) => Ok(snapshot),
            StoredOrFallback::Fallback(decided) => Err(decided),
        }
    }

    fn decision(&self, FallbackSnapshot { choice, snapshot }: &Self::Decided) -> Decision {
        let limit = self.algorithm().limit(choice);
        limit.decision_of(snapshot).degraded()
    }

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

    // Inlined always: a request takes 1 108 instructions so while Redis is down, and 1 156
    // otherwise (bench `outage`).
    #[inline(always)]
    fn decide_instead<T: Clone + Send + 'static>(
        &self,
        error: &StoreError,
        request: &Req,
        (key, cost): (&K, u32),
    ) -> FallbackOutcome<Self::Snapshot<T>> {
        const { nothing_is_to_be_given_back::<C::Limit>() };
        if error.kind() != StoreErrorKind::Unavailable {
            return FallbackOutcome::Failed;
        }
        let choice = self.algorithm().choose(request);
        let limit = self.algorithm().limit(&choice);
        let verdict = self.store().decide_now(limit, key, Ask::Charge(cost));
        if !verdict.admitted {
            return FallbackOutcome::Refused(limit.decision_of(&verdict.snapshot).degraded());
        }
        let delay = limit.delay_of(&verdict.snapshot);
        let snapshot = verdict.snapshot;
        let decided = FallbackSnapshot { choice, snapshot };
        FallbackOutcome::Admitted(StoredOrFallback::Fallback(decided), delay)
    }
}

/// Fails to compile for a limit whose holds or places nobody would give back.
const fn nothing_is_to_be_given_back<L: Limit>() {
    assert!(
        !L::IN_FLIGHT && !L::SETTLES,
        "a limiter in `.on_store_error(..)` charges each request at once: it cannot be `InFlight` or `.settled()`"
    );
}
