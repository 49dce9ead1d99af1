//! A limit over a store, which many processes may share, for one key or several.

use std::{future::Future, pin::Pin};

use tollgate::{
    Decision, StoreError,
    algorithm::Limit,
    key::Key,
    store::{Ask, Change, Store},
};

use crate::call::{Admission, Answer, Call, Ending, decided};

/// A future of a store elsewhere.
pub type Coming<'a> = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send + 'a>>;

/// What a store does for one key; it answers later.
pub trait SharedLimiter: Send + Sync {
    /// Asks the store.
    fn ask<'a>(&'a self, call: Call<'a>) -> Coming<'a>;
}

impl dyn SharedLimiter + '_ {
    /// Decides.
    pub async fn check(&self, cost: u32) -> Result<Decision, StoreError> {
        self.ask(Call::Check(cost)).await.map(decided)
    }

    /// Looks.
    pub async fn peek(&self) -> Result<Decision, StoreError> {
        self.ask(Call::Look(1)).await.map(decided)
    }

    /// Charges, whether it fits or not.
    pub async fn debit(&self, units: u32) -> Result<(), StoreError> {
        self.ask(Call::Debit(units)).await.map(drop)
    }

    /// Gives back.
    pub async fn refund(&self, cost: u32) -> Result<(), StoreError> {
        self.ask(Call::Refund(cost)).await.map(drop)
    }

    /// Forgets.
    pub async fn reset(&self) -> Result<(), StoreError> {
        self.ask(Call::Reset).await.map(drop)
    }
}

/// A limit, a store and a key.
struct Keyed<L, S, K> {
    limit: L,
    store: S,
    key: K,
}

/// The store is asked, and not a limiter: that charges at once what is held and nobody can settle.
pub fn over<L, S, K>(limit: L, store: S, key: K) -> Box<dyn SharedLimiter>
where
    L: Limit,
    S: Store<L, K, Deciding: Send>,
    K: Key,
{
    Box::new(Keyed { limit, store, key })
}

impl<L: Limit, S: Store<L, K, Deciding: Send>, K: Key> Keyed<L, S, K> {
    async fn decide(&self, ask: Ask, cost: u32) -> Result<Answer, StoreError> {
        let decided = self.store.decide(&self.limit, &self.key, ask);
        let snapshot = decided.wait().await?.snapshot;
        Ok(Admission::of(&self.limit, cost, snapshot))
    }

    async fn change(&self, change: Change<'_, L::Snapshot>) -> Result<Answer, StoreError> {
        let written = self.store.change(&self.limit, &self.key, change);
        written.wait().await.map(|()| None)
    }

    async fn end(&self, ended: &Admission, ending: Ending) -> Result<Answer, StoreError> {
        for told in ending.told(ended.cost) {
            self.change(Change::End(ended.snapshot::<L>(), told))
                .await?;
        }
        Ok(None)
    }
}

impl<L: Limit, S: Store<L, K, Deciding: Send>, K: Key> SharedLimiter for Keyed<L, S, K> {
    fn ask<'a>(&'a self, call: Call<'a>) -> Coming<'a> {
        Box::pin(async move {
            match call {
                Call::Check(cost) => self.decide(Ask::Charge(cost), cost).await,
                Call::Look(cost) => self.decide(Ask::Look(cost), cost).await,
                Call::Debit(units) => self.change(Change::Debit(units)).await,
                Call::Refund(cost) => self.change(Change::Refund(cost)).await,
                Call::Reset => self.change(Change::Reset).await,
                Call::Override(told) => self.change(Change::Override(told)).await,
                Call::End(admission, ending) => self.end(admission, ending).await,
            }
        })
    }
}
