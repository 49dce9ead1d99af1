//! What a call does: each operation says what it asks of the store, and what it tells the caller.

use std::future::Future;

use crate::{
    decision::Decision,
    error::StoreError,
    hold::{EndsWhen, Hold},
    key::Key,
    limit::Limit,
    store::{Answer, AsKey, ImmediateStore, Store, Verdict},
};

/// What a [`Call`](super::Call) does. The trait is sealed: the operations are those of this module.
pub trait Operation<L: Limit, K: Key>: sealed::Sealed {
    /// What the caller is told: a [`Decision`], a [`Hold`], or nothing.
    type Told;

    /// What the store answers.
    #[doc(hidden)]
    type Answered: Clone;

    /// Whether an observer is told of it.
    #[doc(hidden)]
    const IS_OBSERVED: bool = false;

    /// The future of an answer that the store does not have yet.
    #[doc(hidden)]
    type Awaited<S: Store<L, K>>: Future<Output = Result<Self::Answered, StoreError>>;

    #[doc(hidden)]
    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<Self::Answered, StoreError>, Self::Awaited<S>>;

    #[doc(hidden)]
    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Self::Answered;

    #[doc(hidden)]
    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
        answered: Self::Answered,
    ) -> Self::Told;

    /// The cost that an observer is told of.
    #[doc(hidden)]
    fn cost(&self) -> u32 {
        0
    }

    /// The verdict that an observer is told, if anything was decided.
    #[doc(hidden)]
    fn verdict(answered: &Self::Answered) -> Option<&Verdict<L::Snapshot>> {
        let _ = answered;
        None
    }
}

mod sealed {
    /// Seals `Operation`.
    pub trait Sealed {}

    impl Sealed for super::Check {}
    impl Sealed for super::Peek {}
    impl Sealed for super::Refund {}
    impl Sealed for super::Debit {}
    impl Sealed for super::TakeHold {}
    impl Sealed for super::Reset {}
}

/// Admits a cost and charges it, or refuses it and charges nothing; tells the [`Decision`].
#[derive(Debug, Clone, Copy)]
pub struct Check {
    pub(super) cost: u32,
}

/// Charges nothing; tells the [`Decision`] that a cost of 1 would get.
#[derive(Debug, Clone, Copy)]
pub struct Peek(pub(super) ());

/// Gives units back; tells nothing.
#[derive(Debug, Clone, Copy)]
pub struct Refund {
    pub(super) cost: u32,
}

/// Charges units whether they fit or not; tells nothing.
#[derive(Debug, Clone, Copy)]
pub struct Debit {
    pub(super) units: u32,
}

/// Holds a cost, or refuses it and changes nothing; tells the [`Hold`], or the [`Decision`] that
/// refuses it.
#[derive(Debug, Clone, Copy)]
pub struct TakeHold {
    pub(super) cost: u32,
}

/// Forgets the key; tells nothing.
#[derive(Debug, Clone, Copy)]
pub struct Reset(pub(super) ());

/// Charges at once what an admission holds: nobody has a hold to settle.
#[inline]
pub(super) fn charge_what_is_held<L: Limit, K: Key, S: Store<L, K>, Q: AsKey<K> + ?Sized>(
    store: &S,
    limit: &L,
    key: &Q,
    verdict: &Verdict<L::Snapshot>,
    cost: u32,
) {
    if L::SETTLES && verdict.admitted && cost > 0 {
        drop(store.settle(limit, key, &verdict.snapshot, (cost, cost)));
    }
}

// Inlined always, as `Call::poll` is: a program that checks in two places would call them, and a
// check of a string takes 0.75 of governor's time then, and 0.70 otherwise (bench `decision`).
impl<L: Limit, K: Key> Operation<L, K> for Check {
    type Told = Decision;
    type Answered = Verdict<L::Snapshot>;
    type Awaited<S: Store<L, K>> = S::Deciding;

    const IS_OBSERVED: bool = true;

    #[inline(always)]
    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<Self::Answered, StoreError>, S::Deciding> {
        store.decide(limit, key, self.cost)
    }

    #[inline(always)]
    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Self::Answered {
        store.decide_now(limit, key, self.cost)
    }

    #[inline(always)]
    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
        verdict: Self::Answered,
    ) -> Decision {
        charge_what_is_held(store, limit, key, &verdict, self.cost);
        limit.decision_of(&verdict.snapshot)
    }

    fn cost(&self) -> u32 {
        self.cost
    }

    fn verdict(verdict: &Self::Answered) -> Option<&Verdict<L::Snapshot>> {
        Some(verdict)
    }
}

impl<L: Limit, K: Key> Operation<L, K> for Peek {
    type Told = Decision;
    type Answered = Verdict<L::Snapshot>;
    type Awaited<S: Store<L, K>> = S::Deciding;

    #[inline]
    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<Self::Answered, StoreError>, S::Deciding> {
        store.peek(limit, key, 1)
    }

    #[inline]
    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Self::Answered {
        store.peek_now(limit, key, 1)
    }

    #[inline]
    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        _store: &S,
        limit: &L,
        _key: &Q,
        verdict: Self::Answered,
    ) -> Decision {
        limit.decision_of(&verdict.snapshot)
    }
}

impl<L: Limit, K: Key> Operation<L, K> for Refund {
    type Told = ();
    type Answered = ();
    type Awaited<S: Store<L, K>> = S::Writing;

    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<(), StoreError>, S::Writing> {
        store.refund(limit, key, self.cost)
    }

    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) {
        store.refund_now(limit, key, self.cost);
    }

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(&self, _store: &S, _limit: &L, _key: &Q, (): ()) {
    }
}

impl<L: Limit, K: Key> Operation<L, K> for Debit {
    type Told = ();
    type Answered = ();
    type Awaited<S: Store<L, K>> = S::Writing;

    const IS_OBSERVED: bool = true;

    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<(), StoreError>, S::Writing> {
        store.debit(limit, key, self.units)
    }

    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) {
        store.debit_now(limit, key, self.units);
    }

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(&self, _store: &S, _limit: &L, _key: &Q, (): ()) {
    }

    fn cost(&self) -> u32 {
        self.units
    }
}

impl<L: Limit, K: Key> Operation<L, K> for TakeHold {
    /// Boxed, as a decision is large for an error.
    type Told = Result<Hold, Box<Decision>>;
    type Answered = Verdict<L::Snapshot>;
    type Awaited<S: Store<L, K>> = S::Deciding;

    const IS_OBSERVED: bool = true;

    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<Self::Answered, StoreError>, S::Deciding> {
        store.decide(limit, key, self.cost)
    }

    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Self::Answered {
        store.decide_now(limit, key, self.cost)
    }

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
        verdict: Self::Answered,
    ) -> Result<Hold, Box<Decision>> {
        if !verdict.admitted {
            return Err(Box::new(limit.decision_of(&verdict.snapshot)));
        }
        let (limit, store, key) = (limit.clone(), store.clone(), key.to_owned());
        let held = (verdict.snapshot, self.cost);
        Ok(Hold::new(limit, store, key, held, EndsWhen::Settled))
    }

    fn cost(&self) -> u32 {
        self.cost
    }

    fn verdict(verdict: &Self::Answered) -> Option<&Verdict<L::Snapshot>> {
        Some(verdict)
    }
}

impl<L: Limit, K: Key> Operation<L, K> for Reset {
    type Told = ();
    type Answered = ();
    type Awaited<S: Store<L, K>> = S::Writing;

    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<(), StoreError>, S::Writing> {
        store.reset(limit, key)
    }

    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) {
        store.reset_now(limit, key);
    }

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(&self, _store: &S, _limit: &L, _key: &Q, (): ()) {
    }
}
