//! What becomes of a request while the store is unavailable: what was chosen for all of them, or
//! what a limiter in this process decides.

use std::time::Duration;

use crate::{
    choice::Choose,
    decision::Decision,
    error::{StoreError, StoreErrorKind},
    key::Key,
    limit::Limit,
    limiter::RateLimiter,
    store::ImmediateStore,
    store_error::{self, HandleStoreError},
};

/// Says what becomes of a request while the store is unavailable: a [`HandleStoreError`], or a
/// [`RateLimiter`] that answers at once.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what becomes of a request while the store is unavailable",
    label = "neither `OnStoreError::Refuse` nor `OnStoreError::Admit`, nor a limiter",
    note = "use one of the two, a closure: `|error: &StoreError| OnStoreError::Refuse`, or a limiter that counts in this process: `RateLimiter::new(smaller, LocalStore::new())`"
)]
pub trait Fallback<Req, K: Key> {
    /// How an admission is kept: the snapshot of the layer's store, or what was decided in its
    /// place.
    type Snapshot<S: Clone + Send + 'static>: Clone + Send + 'static;

    /// Whether it counts what the store admits.
    const COUNTS: bool;

    /// Keeps a snapshot of the layer's store.
    fn stored<S: Clone + Send + 'static>(snapshot: S) -> Self::Snapshot<S>;

    /// The snapshot of the layer's store, or what was decided in its place.
    fn read<S: Clone + Send + 'static>(snapshot: &Self::Snapshot<S>) -> Result<&S, &Decision>;

    /// Counts a request that the store has admitted.
    fn count(&self, request: &Req, key: &K, cost: u32);

    /// Decides in the place of a store that could not.
    fn instead<S: Clone + Send + 'static>(
        &self,
        error: &StoreError,
        request: &Req,
        asked: (&K, u32),
    ) -> Instead<Self::Snapshot<S>>;
}

/// What comes of a request that the store could not decide about.
pub enum Instead<Snapshot> {
    /// It is answered with the store's error.
    Failed,
    /// It passes, and nothing is counted.
    Uncounted,
    /// It passes after this delay.
    Admitted(Snapshot, Duration),
    /// It is refused.
    Refused(Decision),
}

// Without this the compiler would not say that a limiter does, too.
#[diagnostic::do_not_recommend]
impl<Req, K: Key, H: HandleStoreError> Fallback<Req, K> for H {
    type Snapshot<S: Clone + Send + 'static> = S;

    const COUNTS: bool = false;

    #[inline]
    fn stored<S: Clone + Send + 'static>(snapshot: S) -> S {
        snapshot
    }

    #[inline]
    fn read<S: Clone + Send + 'static>(snapshot: &S) -> Result<&S, &Decision> {
        Ok(snapshot)
    }

    #[inline]
    fn count(&self, _request: &Req, _key: &K, _cost: u32) {}

    #[cold]
    fn instead<S: Clone + Send + 'static>(
        &self,
        error: &StoreError,
        _request: &Req,
        _asked: (&K, u32),
    ) -> Instead<S> {
        match store_error::admits(self, error) {
            true => Instead::Uncounted,
            false => Instead::Failed,
        }
    }
}

/// A snapshot of the layer's store, or what was decided in its place.
#[derive(Clone)]
pub enum StoredOrDecided<S> {
    /// The store has admitted it.
    Stored(S),
    /// The limiter in this process has.
    Decided(Decision),
}

impl<Req, K, C, S> Fallback<Req, K> for RateLimiter<C, S>
where
    K: Key,
    C: Choose<Req>,
    S: ImmediateStore<C::Limit, K>,
{
    type Snapshot<T: Clone + Send + 'static> = StoredOrDecided<T>;

    const COUNTS: bool = true;

    #[inline]
    fn stored<T: Clone + Send + 'static>(snapshot: T) -> StoredOrDecided<T> {
        StoredOrDecided::Stored(snapshot)
    }

    #[inline]
    fn read<T: Clone + Send + 'static>(snapshot: &StoredOrDecided<T>) -> Result<&T, &Decision> {
        match snapshot {
            StoredOrDecided::Stored(snapshot) => Ok(snapshot),
            StoredOrDecided::Decided(decision) => Err(decision),
        }
    }

    /// Charges what fits, and no more: what the store admits beyond the smaller limit must not lock
    /// anybody out once that decides.
    fn count(&self, request: &Req, key: &K, cost: u32) {
        let choice = self.algorithm().choose(request);
        let limit = self.algorithm().limit(&choice);
        let verdict = self.store().decide_now(limit, key, cost);
        if !verdict.admitted && cost > 1 {
            let left = limit.decision_of(&verdict.snapshot).remaining();
            let left = u32::try_from(left).unwrap_or(u32::MAX).min(cost);
            self.store().decide_now(limit, key, left);
        }
    }

    fn instead<T: Clone + Send + 'static>(
        &self,
        error: &StoreError,
        request: &Req,
        (key, cost): (&K, u32),
    ) -> Instead<StoredOrDecided<T>> {
        const { nothing_is_to_be_given_back::<C::Limit>() };
        if error.kind() != StoreErrorKind::Unavailable {
            return Instead::Failed;
        }
        let choice = self.algorithm().choose(request);
        let limit = self.algorithm().limit(&choice);
        let verdict = self.store().decide_now(limit, key, cost);
        let decision = limit.decision_of(&verdict.snapshot).degraded();
        match verdict.admitted {
            true => {
                let delay = limit.delay_of(&verdict.snapshot);
                Instead::Admitted(StoredOrDecided::Decided(decision), delay)
            }
            false => Instead::Refused(decision),
        }
    }
}

/// Fails to compile where something would be held that nobody settles, or a place be taken that
/// nothing gives back.
const fn nothing_is_to_be_given_back<L: Limit>() {
    assert!(
        !L::IN_FLIGHT && !L::SETTLES,
        "a limiter in `.on_store_error(..)` charges each request at once: neither `InFlight` nor `.settled()` goes there"
    );
}
