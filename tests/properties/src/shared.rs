//! A limit over a store that many processes share, for one key.

use std::{future::Future, pin::Pin};

use tollgate::{
    Decision, StoreError,
    algorithm::Scripted,
    store::{Ask, Change, RedisStore, Store},
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
struct Keyed<A> {
    rule: A,
    store: RedisStore,
    key: String,
}

pub(crate) fn over<A: Scripted>(rule: A, store: RedisStore, key: String) -> Box<dyn SharedLimiter> {
    Box::new(Keyed { rule, store, key })
}

impl<A: Scripted> Keyed<A> {
    async fn decide(&self, ask: Ask, cost: u32) -> Result<Answer, StoreError> {
        let decided = Store::<A, String>::decide(&self.store, &self.rule, &self.key, ask);
        let snapshot = decided.wait().await?.snapshot;
        Ok(Admission::of(&self.rule, cost, snapshot))
    }

    async fn change(&self, change: Change<'_, A::Snapshot>) -> Result<Answer, StoreError> {
        let written = Store::<A, String>::change(&self.store, &self.rule, &self.key, change);
        written.wait().await.map(|()| None)
    }

    async fn end(&self, ended: &Admission, ending: Ending) -> Result<Answer, StoreError> {
        for told in ending.told(ended.cost) {
            self.change(Change::End(ended.snapshot::<A>(), told))
                .await?;
        }
        Ok(None)
    }
}

impl<A: Scripted> SharedLimiter for Keyed<A> {
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
