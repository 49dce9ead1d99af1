//! One of two stores.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::{key::Key, limit::Limit};

use super::{Answer, AsKey, Decided, Store, Written};

/// Asks one of two stores for each request: so that one program counts in memory or in Redis, as it
/// was configured when it started.
///
/// It is a [`Store`] wherever both are: for every algorithm, tuple and
/// [`EachOf`](crate::EachOf). A layer and a [`RateLimiter`](crate::RateLimiter) over clones of it
/// share their buckets, as over clones of either store. The two share nothing with each other, and
/// what was counted in one is not in the other.
///
/// A `match` whose arms each build a `Router` does without it. It is for a store that is handed on.
///
/// # Example
///
/// ```
/// use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::{EitherStore, LocalStore}};
/// # async fn run(is_small: bool) {
///
/// // One of them would be a `RedisStore`.
/// let store = match is_small {
///     true => EitherStore::Left(LocalStore::builder().max_keys(1_000).build()),
///     false => EitherStore::Right(LocalStore::new()),
/// };
/// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_hour(1)), store);
/// assert!(limiter.check("bob").await.unwrap().is_admitted());
/// assert!(!limiter.check("bob").await.unwrap().is_admitted());
/// # }
/// # for is_small in [true, false] {
/// #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(is_small));
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum EitherStore<L, R> {
    /// The one store.
    Left(L),
    /// The other.
    Right(R),
}

pin_project! {
    /// The answer of one of two stores that is still to come.
    #[project = EitherProjection]
    #[derive(Debug)]
    pub enum EitherAnswer<L, R> {
        /// That of the one store.
        Left { #[pin] answer: L },
        /// That of the other.
        Right { #[pin] answer: R },
    }
}

impl<L: Future, R: Future<Output = L::Output>> Future for EitherAnswer<L, R> {
    type Output = L::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<L::Output> {
        match self.project() {
            EitherProjection::Left { answer } => answer.poll(cx),
            EitherProjection::Right { answer } => answer.poll(cx),
        }
    }
}

#[inline]
fn left<T, L, R>(answer: Answer<T, L>) -> Answer<T, EitherAnswer<L, R>> {
    match answer {
        Answer::Now(answer) => Answer::Now(answer),
        Answer::Later(answer) => Answer::Later(EitherAnswer::Left { answer }),
    }
}

#[inline]
fn right<T, L, R>(answer: Answer<T, R>) -> Answer<T, EitherAnswer<L, R>> {
    match answer {
        Answer::Now(answer) => Answer::Now(answer),
        Answer::Later(answer) => Answer::Later(EitherAnswer::Right { answer }),
    }
}

impl<A: Limit, K: Key, L: Store<A, K>, R: Store<A, K>> Store<A, K> for EitherStore<L, R> {
    type Deciding = EitherAnswer<L::Deciding, R::Deciding>;
    type Writing = EitherAnswer<L::Writing, R::Writing>;

    #[inline]
    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        match self {
            Self::Left(store) => left(store.decide(algorithm, key, cost)),
            Self::Right(store) => right(store.decide(algorithm, key, cost)),
        }
    }

    #[inline]
    fn decide_whole(
        &self,
        algorithm: &A,
        key: &K,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        match self {
            Self::Left(store) => left(store.decide_whole(algorithm, key, cost)),
            Self::Right(store) => right(store.decide_whole(algorithm, key, cost)),
        }
    }

    #[inline]
    fn peek<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Decided<A>, Self::Deciding> {
        match self {
            Self::Left(store) => left(store.peek(algorithm, key, cost)),
            Self::Right(store) => right(store.peek(algorithm, key, cost)),
        }
    }

    fn refund<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        cost: u32,
    ) -> Answer<Written, Self::Writing> {
        match self {
            Self::Left(store) => left(store.refund(algorithm, key, cost)),
            Self::Right(store) => right(store.refund(algorithm, key, cost)),
        }
    }

    fn debit<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        units: u32,
    ) -> Answer<Written, Self::Writing> {
        match self {
            Self::Left(store) => left(store.debit(algorithm, key, units)),
            Self::Right(store) => right(store.debit(algorithm, key, units)),
        }
    }

    fn settle<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        admission: &A::Snapshot,
        held_and_spent: (u32, u32),
    ) -> Answer<Written, Self::Writing> {
        match self {
            Self::Left(store) => left(store.settle(algorithm, key, admission, held_and_spent)),
            Self::Right(store) => right(store.settle(algorithm, key, admission, held_and_spent)),
        }
    }

    fn end<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        admission: &A::Snapshot,
    ) -> Answer<Written, Self::Writing> {
        match self {
            Self::Left(store) => left(store.end(algorithm, key, admission)),
            Self::Right(store) => right(store.end(algorithm, key, admission)),
        }
    }

    fn reset<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
    ) -> Answer<Written, Self::Writing> {
        match self {
            Self::Left(store) => left(store.reset(algorithm, key)),
            Self::Right(store) => right(store.reset(algorithm, key)),
        }
    }

    #[inline]
    fn buckets_id(&self) -> usize {
        match self {
            Self::Left(store) => store.buckets_id(),
            Self::Right(store) => store.buckets_id(),
        }
    }

    fn withdraw(&self, algorithm: &A, key: &K, admission: &A::Snapshot, cost: u32) {
        match self {
            Self::Left(store) => store.withdraw(algorithm, key, admission, cost),
            Self::Right(store) => store.withdraw(algorithm, key, admission, cost),
        }
    }
}
