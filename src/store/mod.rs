//! The stores, which keep the state of every bucket.
//!
//! | store | keeps the buckets in | feature |
//! |---|---|---|
//! | [`LocalStore`] | this process's memory | `local` |
//! | `RedisStore` | Redis or Valkey, for many processes | `redis` |
//! | [`EitherStore`] | one of two stores, chosen when the program starts | none |
//!
//! [`Store`] says what one of your own must do.

use std::{future::Future, hash::Hash};

use crate::{
    error::{StoreError, StoreErrorKind},
    key::Key,
    limit::Limit,
};

#[cfg(any(feature = "local", feature = "redis"))]
mod append_only;
mod either;
mod immediate;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "redis")]
pub mod redis;

pub use either::EitherStore;
pub use immediate::ImmediateStore;
#[cfg(feature = "local")]
pub use local::{LocalStore, LocalStoreBuilder};
#[cfg(feature = "redis")]
pub use redis::{RedisConnection, RedisStore, RedisStoreBuilder, RedisUsage};

/// What a store decided about one cost.
#[derive(Debug, Clone)]
pub struct Verdict<S> {
    /// Whether it was let through, and so charged.
    pub admitted: bool,
    /// The status of the bucket right after the decision.
    pub snapshot: S,
}

/// What a store returns for a decision: a verdict, or why there is none.
pub type Decided<L> = Result<Verdict<<L as Limit>::Snapshot>, StoreError>;

/// What a store returns for a write.
pub type Written = Result<(), StoreError>;

/// An answer, or a future of it.
///
/// A store in memory answers `Now`, so that its path makes no future and never yields.
#[derive(Debug)]
pub enum Answer<T, F> {
    /// The answer.
    Now(T),
    /// A future of the answer.
    Later(F),
}

impl<T, F: Future<Output = T>> Answer<T, F> {
    /// Waits for the answer if it is a future.
    pub async fn wait(self) -> T {
        match self {
            Self::Now(answer) => answer,
            Self::Later(future) => future.await,
        }
    }
}

/// A key as the caller holds it: any borrowed form that `K` can be made from.
///
/// `&str` stands for a `String`, and every `Clone` key for itself.
pub trait AsKey<K>: Hash + Eq + ToOwned<Owned = K> {}

impl<K, Q: Hash + Eq + ToOwned<Owned = K> + ?Sized> AsKey<K> for Q {}

/// The answer of a store that does not support this.
fn not_supported<F>(what: &str) -> Answer<Written, F> {
    let message = format!("this store does not support {what}");
    Answer::Now(Err(StoreError::new(StoreErrorKind::Misconfigured, message)))
}

/// Keeps the buckets of an algorithm, one for each *(policy, key)*, and decides atomically.
///
/// Its clones share the buckets. The example `custom_store` is a complete one, over `dashmap`;
/// `tests/own_store.rs` has one with nothing but what every store must have.
///
/// # What an implementor must do
///
/// - Decide, charge and read the snapshot as one step that no other call can come between.
/// - Write nothing when a request is refused.
/// - Keep the buckets of different [policies](crate::algorithm::Algorithm::policy_id) apart, and
///   forget a state only when the algorithm of its own policy says that it [is
///   fresh](crate::algorithm::Algorithm::is_fresh).
/// - Read the clock once it has the state: under the lock that guards it, if there is one. A thread
///   that waits for a lock with a time brings one that is earlier than the state's.
/// - Start a key that has no state from a [fresh](crate::algorithm::Algorithm::fresh) one.
/// - Keep its memory bounded for any keys that callers send.
/// - Log when it cannot decide, but not for each request: nobody else logs it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot store the buckets of `{A}` for keys of type `{K}`",
    label = "not a store for this algorithm and key",
    note = "use `tollgate::store::LocalStore::new()`, a store of its own for each algorithm and key type, or implement `tollgate::store::Store<{A}, {K}>`",
    note = "clones of a store have one algorithm and one key type: a `RateLimiter` or another layer whose keys are of another type needs a store of its own, or `check`s keys of this one's type"
)]
pub trait Store<A: Limit, K: Key>: Clone + Send + Sync + 'static {
    /// The future of a verdict.
    type Deciding: Future<Output = Decided<A>>;
    /// The future of a write.
    type Writing: Future<Output = Written> + Send + 'static;

    /// Admits and charges the cost, or refuses it and charges nothing.
    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding>;

    /// The same for an owned key. A store that reads it, as that of rules does, need not copy it,
    /// which saves 52 instructions of a request by rules (bench `instructions`).
    // Inlined always: a layer takes 470 instructions so, and 494 otherwise (bench `instructions`).
    #[doc(hidden)]
    #[inline(always)]
    fn decide_whole(
        &self,
        algorithm: &A,
        key: &K,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        self.decide(algorithm, key, cost)
    }

    /// What would be decided about the cost; charges nothing.
    fn peek<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding>;

    /// Gives units back, never more than were charged.
    fn refund<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Written, Self::Writing>;

    /// Charges units whether they fit or not; the next requests wait for what does not.
    ///
    /// By default it is an error, of the kind [`Misconfigured`](StoreErrorKind::Misconfigured).
    fn debit<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        units: u32,
    ) -> Answer<Written, Self::Writing> {
        let _ = (algorithm, key, units);
        not_supported("debits")
    }

    /// Settles what an admission [holds](crate::algorithm::Settled): charges `spent` of `held`
    /// units and frees the rest, or charges what was spent beyond them too.
    ///
    /// It is done whether or not the answer is waited for, and never twice. What is no longer held,
    /// as it was too late or the key was reset, frees nothing.
    ///
    /// By default it is an error, of the kind [`Misconfigured`](StoreErrorKind::Misconfigured).
    fn settle<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        admission: &A::Snapshot,
        held_and_spent: (u32, u32),
    ) -> Answer<Written, Self::Writing> {
        let _ = (algorithm, key, admission, held_and_spent);
        not_supported("settlements")
    }

    /// Gives back the place of a request that was [in flight](crate::algorithm::InFlight) and has
    /// ended.
    ///
    /// It is called while a future is dropped, so it must not block; it is done whether or not the
    /// answer is waited for, and never twice.
    ///
    /// By default it is an error, of the kind [`Misconfigured`](StoreErrorKind::Misconfigured).
    fn end<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        admission: &A::Snapshot,
    ) -> Answer<Written, Self::Writing> {
        let _ = (algorithm, key, admission);
        not_supported("ends of requests")
    }

    /// Forgets the key: its next call starts from a fresh state.
    fn reset<Q: AsKey<K> + ?Sized>(&self, algorithm: &A, key: &Q)
    -> Answer<Written, Self::Writing>;

    /// Identifies its buckets among those of all stores, as long as it lives: calls that
    /// [wait](crate::RateLimiter) for a bucket wait in one line, over all clones of a store.
    ///
    /// By default all stores of a type share a line for each policy and key.
    fn buckets_id(&self) -> usize {
        0
    }

    /// Gives back the turn of a request that was dropped while it waited in a queue.
    ///
    /// It is called while a future is dropped, so it must not block; a store that cannot do it at
    /// once may do it later or not at all (then the turn is lost, and nothing is let through too
    /// early).
    fn withdraw(&self, algorithm: &A, key: &K, admission: &A::Snapshot, cost: u32) {
        let _ = (algorithm, key, admission, cost);
    }
}
