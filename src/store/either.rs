//! One of two stores.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::{algorithm::Limit, key::Key};

use super::{Answer, AsKey, Ask, Change, Decided, Store, Written};

/// Asks one of two stores for each request: so that one program counts in memory or in Redis, as it
/// was configured when it started.
///
/// It is a [`Store`] wherever both are: for every algorithm, tuple and
/// [`EachOf`](crate::EachOf). A layer and a [`RateLimiter`](crate::RateLimiter) over clones of it
/// share their buckets, as over clones of either store. The two share nothing with each other, and
/// what was counted in one is not in the other.
///
/// It is for a store that is passed on: a `match` whose arms each build a whole `Router` does not
/// need it.
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
    /// A future of the answer of one of two stores.
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

impl<L, R> EitherStore<L, R> {
    /// Asks the one store that there is.
    // Inlined always, as is `decide`, which calls it: a check takes 1.01 times as long as over the
    // store itself so, and 1.13 times otherwise (bench `decision`).
    #[inline(always)]
    fn ask<T, F, G>(
        &self,
        left: impl FnOnce(&L) -> Answer<T, F>,
        right: impl FnOnce(&R) -> Answer<T, G>,
    ) -> Answer<T, EitherAnswer<F, G>> {
        match self {
            Self::Left(store) => match left(store) {
                Answer::Now(answer) => Answer::Now(answer),
                Answer::Later(answer) => Answer::Later(EitherAnswer::Left { answer }),
            },
            Self::Right(store) => match right(store) {
                Answer::Now(answer) => Answer::Now(answer),
                Answer::Later(answer) => Answer::Later(EitherAnswer::Right { answer }),
            },
        }
    }
}

impl<A: Limit, K: Key, L: Store<A, K>, R: Store<A, K>> Store<A, K> for EitherStore<L, R> {
    type Deciding = EitherAnswer<L::Deciding, R::Deciding>;
    type Writing = EitherAnswer<L::Writing, R::Writing>;

    #[inline(always)]
    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding> {
        self.ask(
            |store| store.decide(limit, key, ask),
            |store| store.decide(limit, key, ask),
        )
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        self.ask(
            |store| store.change(limit, key, change),
            |store| store.change(limit, key, change),
        )
    }

    #[inline]
    fn buckets_id(&self) -> usize {
        match self {
            Self::Left(store) => store.buckets_id(),
            Self::Right(store) => store.buckets_id(),
        }
    }
}
