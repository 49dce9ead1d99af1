//! The future of a call by hand.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
    time::Instant,
};

use pin_project_lite::pin_project;

use crate::{
    algorithm::Limit,
    choice::Choose,
    error::StoreError,
    key::{self, Key},
    observe::Observe,
    store::{self, ANSWERS_AT_ONCE, Answer, AsKey, ImmediateStore, Store, Verdict},
};

use super::{
    RateLimiter,
    output::{Output, Request},
};

pin_project! {
    /// The future of one call of a [`RateLimiter`]: it asks the store when it is first polled, or
    /// when [`.now()`](Self::now) is called. Before that, nothing is charged.
    ///
    /// Every method that asks the store returns it, but `until_ready`, which waits. It brings a
    /// [`Decision`](crate::Decision), a [`Hold`](crate::Hold) or a refusal, or only its end.
    // Written by hand: an async block would move the `Decision`.
    #[must_use = "nothing happens until it is awaited, or `.now()` is called"]
    pub struct Call<'a, Brings, Algo, Store, Key, AsKey, Observer = ()>
    where
        Algo: Choose<()>,
        Store: store::Store<Algo::Limit, Key>,
        Key: key::Key,
        AsKey: ?Sized,
        Observer: Observe<Key>,
    {
        limiter: &'a RateLimiter<Algo, Store, Observer>,
        key: &'a AsKey,
        request: Request<<Algo::Limit as Limit>::Snapshot>,
        brings: PhantomData<Brings>,
        #[pin]
        state: State<Awaited<Store::Deciding, Store::Writing>, Algo::Choice>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Awaited, Choice> {
        NotAsked,
        Asked { #[pin] answer: Awaited, choice: Choice, started: Option<Instant> },
        Done,
    }
}

pin_project! {
    /// The answer that the store does not have yet.
    #[project = AwaitedProjection]
    enum Awaited<Deciding, Writing> {
        Verdict { #[pin] verdict: Deciding },
        Write { #[pin] written: Writing },
    }
}

const POLLED_AGAIN: &str = "polled after it was ready";

impl<'a, T, C, S, K, Q, W> Call<'a, T, C, S, K, Q, W>
where
    T: Output<C::Limit, K>,
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: AsKey<K> + ?Sized,
    W: Observe<K>,
{
    #[inline]
    pub(super) fn new(
        limiter: &'a RateLimiter<C, S, W>,
        key: &'a Q,
        request: Request<<C::Limit as Limit>::Snapshot>,
    ) -> Self {
        Self {
            limiter,
            key,
            request,
            brings: PhantomData,
            state: State::NotAsked,
        }
    }

    /// Decides at once, without async: for a [store that answers at once](ImmediateStore), as
    /// [`LocalStore`](crate::store::LocalStore) does.
    ///
    /// It gives what awaiting gives, but no `Result`: such a store does not fail.
    ///
    /// # Panics
    ///
    /// If it was polled before, or the store is not what it says.
    ///
    /// # Example: a check in code that is not async
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter, algorithm::TokenBucket, store::LocalStore};
    ///
    /// let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
    /// assert!(limiter.check_cost("bob", 2).now().is_admitted());
    /// assert!(!limiter.check("bob").now().is_admitted());
    ///
    /// limiter.refund("bob", 1).now();
    /// assert_eq!(limiter.peek("bob").now().remaining(), 1);
    /// limiter.reset("bob").now();
    /// assert_eq!(limiter.peek("bob").now().remaining(), 2);
    /// ```
    #[inline]
    #[track_caller]
    pub fn now(self) -> T
    where
        S: ImmediateStore<C::Limit, K>,
    {
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(self).poll(&mut cx) {
            Poll::Ready(Ok(output)) => output,
            _ => panic!("{ANSWERS_AT_ONCE}"),
        }
    }

    /// Tells the caller and the observer.
    #[inline]
    fn output(
        (limiter, limit, key): At<'_, C, S, Q, W>,
        request: &RequestOf<C>,
        started: Option<Instant>,
        verdict: Option<VerdictOf<C>>,
    ) -> T {
        let seen = (!limiter.observer.is_silent()).then(|| verdict.clone());
        let cost = request.observed_cost();
        let output = T::of_verdict((&limiter.store, limit, key), cost.unwrap_or(0), verdict);
        // Last, so that what is held ends if the observer panics.
        if let (Some(seen), Some(cost)) = (seen, cost) {
            let store_time = started.map(|started| started.elapsed());
            limiter.notify_observer((limit, key, cost), Ok(seen.as_ref()), store_time, None);
        }
        output
    }

    /// An error is returned here, and not by [`output`](Self::output): with a result in place of
    /// the verdict there, a decision that is kept takes a third longer (bench `decision`).
    // Inlined always, for the same reason as `poll`: over either of two stores a check takes 358
    // instructions otherwise.
    #[inline(always)]
    fn answer(
        at: At<'_, C, S, Q, W>,
        request: &RequestOf<C>,
        started: Option<Instant>,
        answered: Result<Option<VerdictOf<C>>, StoreError>,
    ) -> Result<T, StoreError> {
        if let (Err(error), Some(cost)) = (&answered, request.observed_cost()) {
            let (limiter, limit, key) = at;
            let store_time = started.map(|started| started.elapsed());
            limiter.notify_observer((limit, key, cost), Err(error), store_time, None);
        }
        answered.map(|verdict| Self::output(at, request, started, verdict))
    }
}

type RequestOf<C> = Request<<<C as Choose<()>>::Limit as Limit>::Snapshot>;
type VerdictOf<C> = Verdict<<<C as Choose<()>>::Limit as Limit>::Snapshot>;
/// Who asks, by which limit, about which key.
type At<'a, C, S, Q, W> = (
    &'a RateLimiter<C, S, W>,
    &'a <C as Choose<()>>::Limit,
    &'a Q,
);

impl<T, C, S, K, Q, W> Future for Call<'_, T, C, S, K, Q, W>
where
    T: Output<C::Limit, K>,
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: AsKey<K> + ?Sized,
    W: Observe<K>,
{
    type Output = Result<T, StoreError>;

    // Inlined always. Otherwise the compiler makes it a function where a program checks in two
    // places; that writes the decision to memory in words, and the caller copies it in pairs of
    // words, which waits for the writes. A check takes 0.73 of governor's time so, and 0.85
    // otherwise (bench `decision`).
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (limiter, key, request) = (*this.limiter, *this.key, &*this.request);
        if let StateProjection::NotAsked = this.state.as_mut().project() {
            // Before it asks, while it is known that there is no answer to drop.
            this.state.set(State::Done);
            let choice = limiter.algorithm.choose(&());
            let limit = limiter.algorithm.limit(&choice);
            let at = (limiter, limit, key);
            let is_timed = request.observed_cost().is_some() && limiter.observer.times_store();
            let started = is_timed.then(Instant::now);
            let is_unheld = C::Limit::SETTLES && !T::SETTLES && request.charges();
            let unheld = is_unheld.then(|| limit.unheld());
            let asked = unheld.as_ref().unwrap_or(limit);
            let answer = match *request {
                Request::Decide(ask) => match limiter.store.decide(asked, key, ask) {
                    Answer::Now(decided) => {
                        let answered = decided.map(Some);
                        return Poll::Ready(Self::answer(at, request, started, answered));
                    }
                    Answer::Later(verdict) => Awaited::Verdict { verdict },
                },
                Request::Change(change) => match limiter.store.change(limit, key, change) {
                    Answer::Now(written) => {
                        let answered = written.map(|()| None);
                        return Poll::Ready(Self::answer(at, request, started, answered));
                    }
                    Answer::Later(written) => Awaited::Write { written },
                },
            };
            this.state.set(State::Asked {
                answer,
                choice,
                started,
            });
        }
        let StateProjection::Asked {
            answer,
            choice,
            started,
        } = this.state.as_mut().project()
        else {
            panic!("{POLLED_AGAIN}");
        };
        let answered = match answer.project() {
            AwaitedProjection::Verdict { verdict } => ready!(verdict.poll(cx)).map(Some),
            AwaitedProjection::Write { written } => ready!(written.poll(cx)).map(|()| None),
        };
        let at = (limiter, limiter.algorithm.limit(choice), key);
        let output = Self::answer(at, request, *started, answered);
        this.state.set(State::Done);
        Poll::Ready(output)
    }
}

impl<T, C, S, K, Q, W> fmt::Debug for Call<'_, T, C, S, K, Q, W>
where
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: ?Sized,
    W: Observe<K>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("cost", &self.request.observed_cost())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "local"))]
mod tests;
