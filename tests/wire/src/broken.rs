//! A store that is down.

use std::future::{Ready, ready};

use tollgate::{
    StoreError, StoreErrorKind,
    algorithm::Algorithm,
    key::Key,
    store::{Answer, AsKey, Store, Verdict},
};

/// Fails to decide about anything.
#[derive(Clone, Copy, Debug)]
pub struct Broken(
    /// In this way.
    pub StoreErrorKind,
);

impl Broken {
    fn fail<T>(self) -> Result<T, StoreError> {
        Err(StoreError::new(self.0, "broken on purpose: redis://s3cret"))
    }
}

impl<A: Algorithm, K: Key> Store<A, K> for Broken {
    type Deciding = Ready<Result<Verdict<A::Snapshot>, StoreError>>;
    type Writing = Ready<Result<(), StoreError>>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        _algorithm: &A,
        _key: &Q,
        _cost: u32,
    ) -> Answer<Result<Verdict<A::Snapshot>, StoreError>, Self::Deciding> {
        Answer::Now(self.fail())
    }

    fn peek<Q: AsKey<K> + ?Sized>(
        &self,
        _algorithm: &A,
        _key: &Q,
        _cost: u32,
    ) -> Answer<Result<Verdict<A::Snapshot>, StoreError>, Self::Deciding> {
        Answer::Later(ready(self.fail()))
    }

    fn refund<Q: AsKey<K> + ?Sized>(
        &self,
        _algorithm: &A,
        _key: &Q,
        _cost: u32,
    ) -> Answer<Result<(), StoreError>, Self::Writing> {
        Answer::Now(self.fail())
    }

    fn reset<Q: AsKey<K> + ?Sized>(
        &self,
        _algorithm: &A,
        _key: &Q,
    ) -> Answer<Result<(), StoreError>, Self::Writing> {
        Answer::Now(self.fail())
    }
}
