//! What several tests need: a store that answers later, one that fails for a while or always or
//! cannot be looked at, and a service that watches its readiness.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    convert::Infallible,
    future::{Future, Ready, pending, ready},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tollgate::{
    Quota, RateLimitLayer, StoreError, StoreErrorKind, Timestamp,
    algorithm::{Ending, FixedWindow, KeyLimit, Limit},
    clock::ManualClock,
    key::{Global, Key},
    response::AsError,
    store::{Answer, AsKey, Ask, Change, Decided, LocalBuckets, LocalStore, Store, Written},
};
use tower::Service;

/// Decides like the store that it wraps, but never at once, like a store behind a network.
#[derive(Clone, Debug)]
pub(crate) struct Remote<S>(pub(crate) S);

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn later<T: Send + 'static, F>(
    answer: Answer<Result<T, StoreError>, F>,
) -> Later<Result<T, StoreError>>
where
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    Box::pin(async {
        tokio::task::yield_now().await;
        answer.wait().await
    })
}

impl<A, K, S> Store<A, K> for Remote<S>
where
    A: KeyLimit,
    K: Key,
    S: Store<A, K, Deciding: Send + 'static>,
{
    type Deciding = Later<Decided<A>>;
    type Writing = Later<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<A>, Self::Deciding> {
        Answer::Later(later(self.0.decide(algorithm, key, ask)))
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        algorithm: &A,
        key: &Q,
        change: Change<'_, A::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        let answer = self.0.change(algorithm, key, change);
        match change {
            // Nobody waits for it.
            Change::End(_, Ending::Withdrawn { .. }) => Answer::Now(Ok(())),
            _ => Answer::Later(later(answer)),
        }
    }
}

/// A store that answers, or fails with this error; its looks may never be answered.
#[derive(Clone, Debug)]
pub(crate) struct Flapping<S> {
    store: S,
    failure: Arc<Mutex<Option<StoreErrorKind>>>,
    answers_later: bool,
    is_blind: bool,
}

impl<S> Flapping<S> {
    pub(crate) fn over(store: S) -> Self {
        Self {
            store,
            failure: Arc::default(),
            answers_later: false,
            is_blind: false,
        }
    }

    pub(crate) fn later(self) -> Self {
        Self {
            answers_later: true,
            ..self
        }
    }

    pub(crate) fn blind(self) -> Self {
        Self {
            is_blind: true,
            ..self
        }
    }

    pub(crate) fn fails(&self, failure: impl Into<Option<StoreErrorKind>>) {
        *self.failure.lock().unwrap() = failure.into();
    }

    fn answer<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&S) -> Result<T, StoreError>,
    ) -> Answer<Result<T, StoreError>, Later<Result<T, StoreError>>> {
        let answer = match *self.failure.lock().unwrap() {
            Some(kind) => Err(StoreError::new(kind, "broken on purpose: redis://s3cret")),
            None => answer(&self.store),
        };
        match self.answers_later {
            true => Answer::Later(Box::pin(ready(answer))),
            false => Answer::Now(answer),
        }
    }
}

fn at_once<T, F>(answer: Answer<T, F>) -> T {
    match answer {
        Answer::Now(answer) => answer,
        Answer::Later(_) => unreachable!("a store in memory"),
    }
}

impl<L: Limit, K: Key, S: Store<L, K>> Store<L, K> for Flapping<S> {
    type Deciding = Later<Decided<L>>;
    type Writing = Later<Written>;

    fn decide<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &L,
        key: &Q,
        ask: Ask,
    ) -> Answer<Decided<L>, Self::Deciding> {
        match ask {
            Ask::Look(_) if self.is_blind => Answer::Later(Box::pin(pending())),
            _ => self.answer(|store| at_once(store.decide(limit, key, ask))),
        }
    }

    fn change<Q: AsKey<K> + ?Sized>(
        &self,
        limit: &L,
        key: &Q,
        change: Change<'_, L::Snapshot>,
    ) -> Answer<Written, Self::Writing> {
        self.answer(|store| at_once(store.change(limit, key, change)))
    }
}

/// A store in memory that fails at every call.
pub(crate) fn broken<A: LocalBuckets<K>, K>(kind: StoreErrorKind) -> Flapping<LocalStore<A, K>> {
    let store = Flapping::over(LocalStore::new());
    store.fails(kind);
    store
}

/// Answers each number with itself, counts its calls, and panics if it is called before it was made
/// ready. A clone starts unready, as a clone of a concurrency limit does.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    pub(crate) calls: Arc<AtomicUsize>,
    is_ready: bool,
    pending_polls: usize,
}

impl Echo {
    pub(crate) fn pending_for(polls: usize) -> Self {
        Self {
            pending_polls: polls,
            ..Self::default()
        }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Clone for Echo {
    fn clone(&self) -> Self {
        Self {
            calls: Arc::clone(&self.calls),
            is_ready: false,
            pending_polls: self.pending_polls,
        }
    }
}

impl Service<u32> for Echo {
    type Response = u32;
    type Error = Infallible;
    type Future = Ready<Result<u32, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.pending_polls > 0 {
            self.pending_polls -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Self::Future {
        assert!(self.is_ready, "called without having been made ready");
        self.is_ready = false;
        self.calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(request))
    }
}

/// A layer around a service of numbers.
pub(crate) fn numbers<A, S>(algorithm: A, store: S) -> RateLimitLayer<A, S, Global, AsError> {
    RateLimitLayer::new(algorithm, store, Global).respond_with(AsError)
}

/// So many units a day.
pub(crate) fn daily(units: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_day(units)).named("daily")
}

/// A store whose time stands still at zero until it is set.
pub(crate) fn by_hand<L: LocalBuckets<K>, K>() -> (ManualClock, LocalStore<L, K, ManualClock>) {
    let clock = ManualClock::at(Timestamp::from_micros(0));
    (clock.clone(), LocalStore::builder().clock(clock).build())
}
