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
    algorithm::{Ending, KeyLimit, Limit, Override},
    clock::Timestamp,
    error::{StoreError, StoreErrorKind},
    key::Key,
};

mod either;
mod immediate;
#[cfg(feature = "local")]
mod local;
#[cfg(feature = "redis")]
mod redis;

pub use either::EitherStore;
pub(crate) use immediate::ANSWERS_AT_ONCE;
pub use immediate::ImmediateStore;
#[cfg(feature = "local")]
#[doc(hidden)]
pub use local::LocalBuckets;
#[cfg(feature = "local")]
pub use local::{LocalStore, LocalStoreBuilder, LocalUsage};
#[cfg(feature = "redis")]
pub use redis::{RedisConnection, RedisStore, RedisStoreBuilder, RedisUsage};

/// Whether a store charges a cost, or only looks at what it would decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// To admit and charge it, or to refuse it and charge nothing.
    Charge(u32),
    /// What would be decided about it. Nothing is charged.
    Look(u32),
}

impl Ask {
    /// The cost that is asked about.
    #[inline]
    #[must_use]
    pub fn cost(self) -> u32 {
        match self {
            Self::Charge(cost) | Self::Look(cost) => cost,
        }
    }

    /// Decides by a state, as a store does that has it at hand.
    #[inline]
    pub fn decide<A: KeyLimit>(
        self,
        limit: &A,
        state: &mut A::State,
        now: Timestamp,
    ) -> Verdict<A::Snapshot> {
        let (admitted, snapshot) = match self {
            Self::Charge(cost) => limit.step(state, cost, now),
            Self::Look(cost) => {
                let admitted = limit.judge(state, cost, now);
                let refused_cost = if admitted { 0 } else { cost };
                (admitted, limit.snapshot(state, refused_cost, admitted, now))
            }
        };
        Verdict::new(admitted, snapshot)
    }

    /// What an admission is charged.
    #[inline]
    fn charge(self) -> u32 {
        match self {
            Self::Charge(cost) => cost,
            Self::Look(_) => 0,
        }
    }
}

/// A change of what a key has been charged, other than by a decision.
///
/// A store [need not support](Self::not_supported) all of them: what needs one that it lacks is an
/// error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change<'a, S> {
    /// Units are given back, never more than were charged.
    Refund(u32),
    /// Units are charged whether they fit or not; the next requests wait for what does not.
    Debit(u32),
    /// The admission with this snapshot ends. A store that cannot
    /// [withdraw](Ending::Withdrawn) it at once may do so later or not at all.
    End(&'a S, Ending),
    /// The key is forgotten: its next call starts from a fresh state.
    Reset,
    /// The key is forgotten, and until an instant [this](Override::decide) decides about it. Until
    /// then no other change but a reset or another override has an effect.
    Override(Override),
}

// Not derived: that would ask the same of the snapshot.
impl<S> Clone for Change<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Change<'_, S> {}

impl<'a, S> Change<'a, S> {
    /// The answer of a store that does not support this change: an error of the kind
    /// [`Misconfigured`](StoreErrorKind::Misconfigured).
    pub fn not_supported<F>(&self) -> Answer<Written, F> {
        let what = match self {
            Self::Refund(_) => "refunds",
            Self::Debit(_) => "debits",
            Self::End(_, Ending::Settled { .. }) => "settlements",
            Self::End(_, Ending::Over) => "ends of requests",
            Self::End(_, Ending::Withdrawn { .. }) => "withdrawals",
            Self::Reset => "resets",
            Self::Override(_) => "overrides",
        };
        let message = format!("this store does not support {what}");
        Answer::Now(Err(StoreError::new(StoreErrorKind::Misconfigured, message)))
    }

    /// Changes a state, as a store does that has it at hand. An [override](Self::Override) changes
    /// none: a store keeps it beside the states, or [does not support it](Self::not_supported).
    pub fn apply<A: KeyLimit<Snapshot = S>>(self, limit: &A, state: &mut A::State, now: Timestamp) {
        match self {
            Self::Refund(0) | Self::Debit(0) => {}
            Self::Refund(cost) => limit.refund(state, cost, now),
            Self::Debit(units) => limit.debit(state, units.into(), now),
            Self::End(admission, ending) => limit.end(state, admission, ending, now),
            Self::Reset => *state = limit.fresh(now),
            Self::Override(_) => {}
        }
    }

    /// The same change for one of several limits; none, if its admission has no part of that limit.
    fn of_part<T>(self, part: impl FnOnce(&'a S) -> Option<&'a T>) -> Option<Change<'a, T>> {
        Some(match self {
            Self::Refund(cost) => Change::Refund(cost),
            Self::Debit(units) => Change::Debit(units),
            Self::End(admission, ending) => Change::End(part(admission)?, ending),
            Self::Reset => Change::Reset,
            Self::Override(overriding) => Change::Override(overriding),
        })
    }
}

/// What a store decided about one cost.
#[derive(Debug, Clone)]
pub struct Verdict<S> {
    /// Whether it was let through, and so charged.
    pub admitted: bool,
    /// The status of the bucket right after the decision.
    pub snapshot: S,
    /// What it was decided by.
    pub source: Source,
}

impl<S> Verdict<S> {
    /// A verdict by the [bucket itself](Source::Store).
    #[inline]
    pub fn new(admitted: bool, snapshot: S) -> Self {
        let source = Source::Store;
        Self {
            admitted,
            snapshot,
            source,
        }
    }
}

/// What a store has decided about a request by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The bucket itself: in memory, or in Redis, which was asked.
    Store,
    /// A refusal that a `RedisStore` has remembered (`remember_refusals`): Redis was not asked.
    Remembered,
    /// Units that a `RedisStore` has leased (`leased`): Redis was not asked.
    Leased,
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

impl<T, F> Answer<Result<T, StoreError>, F> {
    /// The answer of an [`ImmediateStore`].
    pub(crate) fn at_once(self) -> T {
        match self {
            Self::Now(Ok(answer)) => answer,
            _ => panic!("{ANSWERS_AT_ONCE}"),
        }
    }
}

/// What [`check`](crate::RateLimiter::check) takes as a key: the key, or a borrowed form that it
/// can be made from.
///
/// `&str` stands for a `String`, and every `Clone` key for itself. A map of the standard library is
/// asked by `&key.to_owned()`; one that compares by the hash and `Q::Owned: Borrow<Q>` needs no
/// owned key.
pub trait AsKey<K>: Hash + Eq + ToOwned<Owned = K> {}

impl<K, Q: Hash + Eq + ToOwned<Owned = K> + ?Sized> AsKey<K> for Q {}

/// Keeps the buckets of an algorithm, one for each *(policy, key)*, and decides atomically.
///
/// Its clones share the buckets. The example `custom_store` is a complete one, over `dashmap`; that
/// of [`ImmediateStore`] is a small one, of one bucket.
///
/// # What an implementor must do
///
/// - Decide, charge and read the snapshot as one step that no other call can come between.
/// - Write nothing when a request is refused.
/// - Keep the buckets of different [policies](crate::algorithm::Limit::policy_id) apart, and
///   forget a state only when the algorithm of its own policy says that it [is
///   fresh](crate::algorithm::KeyLimit::is_fresh).
/// - Read the clock once it has the state: under the lock that guards it, if there is one. A thread
///   that waits for a lock with a time brings one that is earlier than the state's.
/// - Start a key that has no state from a [fresh](crate::algorithm::KeyLimit::fresh) one.
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

    /// Decides about a cost, and charges it if it is admitted and is to be charged.
    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding>;

    /// Changes what a key has been charged.
    ///
    /// It is never done twice. It may be called while a future is dropped, so it must not wait for
    /// anything but a short lock.
    ///
    /// | change | is done |
    /// |---|---|
    /// | [`Refund`](Change::Refund), [`Debit`](Change::Debit), [`Reset`](Change::Reset), [`Override`](Change::Override) | at the latest when the answer is waited for |
    /// | [`End`](Change::End) | whether or not the answer is waited for |
    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing>;

    /// Calls that [wait](crate::RateLimiter) for a bucket wait in one line, over all stores of a
    /// type with the same number, as long as this one lives: clones have the same.
    ///
    /// By default all stores of a type share a line for each policy and key.
    fn buckets_id(&self) -> usize {
        0
    }
}
