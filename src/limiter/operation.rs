//! What a call does: each operation says what it asks of the store, and what it tells the caller.

use std::future::Future;

use crate::{
    algorithm::Limit,
    decision::Decision,
    error::StoreError,
    hold::{EndsWhen, Hold},
    key::Key,
    store::{Answer, AsKey, Ask, Change, ImmediateStore, Store, Verdict},
};

/// What a [`Call`](super::Call) does. The trait is sealed: the operations are those of this module.
pub trait Operation<L: Limit, K: Key>: sealed::Sealed {
    /// What the caller is told: a [`Decision`], a [`Hold`], or nothing.
    type Told;

    /// What the store answers.
    #[doc(hidden)]
    type Answered: Clone;

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

    /// What an observer is told that it is about; none, if none is told.
    #[doc(hidden)]
    fn observed_cost(&self) -> Option<u32>;

    /// The verdict that an observer is told, if anything was decided.
    #[doc(hidden)]
    fn verdict(answered: &Self::Answered) -> Option<&Verdict<L::Snapshot>>;
}

mod sealed {
    /// Seals `Operation`.
    pub trait Sealed {}

    impl Sealed for super::Check {}
    impl Sealed for super::TakeHold {}
    impl Sealed for super::Write {}
}

/// Asks the store about a cost; tells the [`Decision`].
#[derive(Debug, Clone, Copy)]
pub struct Check {
    pub(super) ask: Ask,
}

/// Holds a cost, or refuses it and changes nothing; tells the [`Hold`], or the [`Decision`] that
/// refuses it.
#[derive(Debug, Clone, Copy)]
pub struct TakeHold {
    pub(super) cost: u32,
}

/// Gives units back, charges them whether they fit or not, or forgets the key; tells nothing.
#[derive(Debug, Clone, Copy)]
pub struct Write(pub(super) Written);

#[derive(Debug, Clone, Copy)]
pub(super) enum Written {
    Refund(u32),
    Debit(u32),
    Reset,
}

/// Charges a held cost at once, where nobody settles it.
#[inline]
pub(super) fn charge_what_is_held<L: Limit, K: Key, S: Store<L, K>, Q: AsKey<K> + ?Sized>(
    store: &S,
    limit: &L,
    key: &Q,
    verdict: &Verdict<L::Snapshot>,
    cost: u32,
) {
    if L::SETTLES && verdict.admitted && cost > 0 {
        let admission = &verdict.snapshot;
        let (held, spent) = (cost, cost);
        drop(store.change(
            limit,
            key,
            Change::Settle {
                admission,
                held,
                spent,
            },
        ));
    }
}

// Inlined always, as `Call::poll` is: a program that checks in two places would call them, and a
// check of a string takes 0.75 of governor's time then, and 0.70 otherwise (bench `decision`).
impl<L: Limit, K: Key> Operation<L, K> for Check {
    type Told = Decision;
    type Answered = Verdict<L::Snapshot>;
    type Awaited<S: Store<L, K>> = S::Deciding;

    #[inline(always)]
    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<Self::Answered, StoreError>, S::Deciding> {
        store.decide(limit, key, self.ask)
    }

    #[inline(always)]
    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Self::Answered {
        store.decide_now(limit, key, self.ask)
    }

    #[inline(always)]
    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
        verdict: Self::Answered,
    ) -> Decision {
        if let Ask::Charge(cost) = self.ask {
            charge_what_is_held(store, limit, key, &verdict, cost);
        }
        limit.decision_of(&verdict.snapshot)
    }

    #[inline]
    fn observed_cost(&self) -> Option<u32> {
        match self.ask {
            Ask::Charge(cost) => Some(cost),
            Ask::Look(_) => None,
        }
    }

    fn verdict(verdict: &Self::Answered) -> Option<&Verdict<L::Snapshot>> {
        Some(verdict)
    }
}

impl<L: Limit, K: Key> Operation<L, K> for TakeHold {
    type Told = Result<Hold, Box<Decision>>;
    type Answered = Verdict<L::Snapshot>;
    type Awaited<S: Store<L, K>> = S::Deciding;

    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<Self::Answered, StoreError>, S::Deciding> {
        store.decide(limit, key, Ask::Charge(self.cost))
    }

    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Self::Answered {
        store.decide_now(limit, key, Ask::Charge(self.cost))
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

    fn observed_cost(&self) -> Option<u32> {
        Some(self.cost)
    }

    fn verdict(verdict: &Self::Answered) -> Option<&Verdict<L::Snapshot>> {
        Some(verdict)
    }
}

impl Written {
    fn change<S>(self) -> Change<'static, S> {
        match self {
            Self::Refund(cost) => Change::Refund(cost),
            Self::Debit(units) => Change::Debit(units),
            Self::Reset => Change::Reset,
        }
    }
}

impl<L: Limit, K: Key> Operation<L, K> for Write {
    type Told = ();
    type Answered = ();
    type Awaited<S: Store<L, K>> = S::Writing;

    fn ask<S: Store<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) -> Answer<Result<(), StoreError>, S::Writing> {
        store.change(limit, key, self.0.change())
    }

    fn ask_now<S: ImmediateStore<L, K>, Q: AsKey<K> + ?Sized>(
        &self,
        store: &S,
        limit: &L,
        key: &Q,
    ) {
        store.change_now(limit, key, self.0.change());
    }

    fn tell<S: Store<L, K>, Q: AsKey<K> + ?Sized>(&self, _store: &S, _limit: &L, _key: &Q, (): ()) {
    }

    fn observed_cost(&self) -> Option<u32> {
        match self.0 {
            Written::Debit(units) => Some(units),
            Written::Refund(_) | Written::Reset => None,
        }
    }

    fn verdict((): &()) -> Option<&Verdict<L::Snapshot>> {
        None
    }
}
