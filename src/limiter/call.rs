//! The future of a call by hand.

use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use pin_project_lite::pin_project;

use crate::{
    algorithm::Limit,
    choice::Choose,
    error::StoreError,
    key::Key,
    observe::{Observe, Silent},
    store::{Answer, AsKey, ImmediateStore, Store},
};

use super::{RateLimiter, observe::Observation, operation::Operation};

pin_project! {
    /// Asks the store when it is first polled, or when [`.now()`](Self::now) is called: before
    /// that, nothing is charged.
    ///
    /// It is what every method of [`RateLimiter`] returns: a `Call<Check, ..>` brings a
    /// [`Decision`](crate::Decision), a `Call<TakeHold, ..>` a [`Hold`](crate::Hold) or a refusal,
    /// a `Call<Refund, ..>` only its end.
    ///
    /// Hand-written future: avoids moving `Decision`. As an async block a check takes 13
    /// instructions more (counted by callgrind; `benches/peers`, bin `instructions`, counts so).
    #[must_use = "nothing happens until it is awaited, or `.now()` is called"]
    pub struct Call<'a, Op, C, S, K, Q, W = Silent>
    where
        Op: Operation<C::Limit, K>,
        C: Choose<()>,
        S: Store<C::Limit, K>,
        K: Key,
        Q: ?Sized,
        W: Observe<K>,
    {
        limiter: &'a RateLimiter<C, S, W>,
        key: &'a Q,
        operation: Op,
        #[pin]
        state: State<Op::Awaited<S>, C::Choice>,
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

const POLLED_AGAIN: &str = "polled after it was ready";

impl<'a, Op, C, S, K, Q, W> Call<'a, Op, C, S, K, Q, W>
where
    Op: Operation<C::Limit, K>,
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: ?Sized,
    W: Observe<K>,
{
    #[inline]
    pub(super) fn new(limiter: &'a RateLimiter<C, S, W>, key: &'a Q, operation: Op) -> Self {
        Self {
            limiter,
            key,
            operation,
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
    /// If it was polled before.
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
    pub fn now(self) -> Op::Told
    where
        Q: AsKey<K>,
        S: ImmediateStore<C::Limit, K>,
    {
        assert!(matches!(self.state, State::NotAsked), "{POLLED_AGAIN}");
        let (algorithm, store) = (self.limiter.algorithm(), self.limiter.store());
        let choice = algorithm.choose(&());
        let limit = algorithm.limit(&choice);
        let started = Self::start(self.limiter, &self.operation);
        let answered = self.operation.ask_now(store, limit, self.key);
        let caller = Caller {
            limiter: self.limiter,
            operation: &self.operation,
            limit,
            key: self.key,
            owned: PhantomData,
            started,
        };
        caller.tell(answered)
    }

    /// Starts to measure, if an observer is told of the call and wants it.
    #[inline]
    fn start(limiter: &RateLimiter<C, S, W>, operation: &Op) -> Option<Instant> {
        operation
            .observed_cost()
            .and_then(|_| limiter.observer.start())
    }
}

/// Passes the answer of a call on: to the caller, and to the observer.
struct Caller<'a, Op, C, L, S, K, Q: ?Sized, W> {
    limiter: &'a RateLimiter<C, S, W>,
    operation: &'a Op,
    limit: &'a L,
    key: &'a Q,
    owned: PhantomData<K>,
    started: Option<Instant>,
}

impl<Op, C, L, S, K, Q, W> Caller<'_, Op, C, L, S, K, Q, W>
where
    Op: Operation<L, K>,
    L: Limit,
    S: Store<L, K>,
    K: Key,
    Q: AsKey<K> + ?Sized,
    W: Observe<K>,
{
    /// What an observer is told that it is about, if there is one that is told.
    #[inline]
    fn observed_cost(&self) -> Option<u32> {
        match self.limiter.observer.is_silent() {
            true => None,
            false => self.operation.observed_cost(),
        }
    }

    #[inline]
    fn tell(&self, answered: Op::Answered) -> Op::Told {
        let seen = (self.observed_cost()).map(|cost| (cost, answered.clone()));
        let told = (self.operation).tell(self.limiter.store(), self.limit, self.key, answered);
        // Last, so that what is held ends if the observer panics.
        if let Some((cost, seen)) = seen {
            self.tell_observer(cost, Ok(&seen));
        }
        told
    }

    #[inline]
    fn answer(&self, answered: Result<Op::Answered, StoreError>) -> Result<Op::Told, StoreError> {
        match answered {
            Ok(answered) => Ok(self.tell(answered)),
            Err(error) => {
                if let Some(cost) = self.observed_cost() {
                    self.tell_observer(cost, Err(&error));
                }
                Err(error)
            }
        }
    }

    fn tell_observer(&self, cost: u32, answered: Result<&Op::Answered, &StoreError>) {
        let observation = Observation {
            limit: self.limit,
            key: self.key,
            cost,
            answered: answered.map(Op::verdict),
            store_time: self.started.map(|started| started.elapsed()),
            waited: None,
        };
        observation.tell(&self.limiter.observer);
    }
}

impl<Op, C, S, K, Q, W> Future for Call<'_, Op, C, S, K, Q, W>
where
    Op: Operation<C::Limit, K>,
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: AsKey<K> + ?Sized,
    W: Observe<K>,
{
    type Output = Result<Op::Told, StoreError>;

    // Inlined always. Otherwise the compiler makes it a function where a program checks in two
    // places; that writes the decision to memory in words, and the caller copies it in pairs of
    // words, which waits for the writes. A check takes 0.73 of governor's time so, and 0.85
    // otherwise (bench `decision`).
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (algorithm, store) = (this.limiter.algorithm(), this.limiter.store());
        loop {
            match this.state.as_mut().project() {
                StateProjection::NotAsked => {
                    // Before it asks, while it is known that there is no answer to drop.
                    this.state.set(State::Done);
                    let choice = algorithm.choose(&());
                    let limit = algorithm.limit(&choice);
                    let started = Self::start(this.limiter, this.operation);
                    match this.operation.ask(store, limit, *this.key) {
                        Answer::Now(answered) => {
                            let caller = Caller {
                                limiter: *this.limiter,
                                operation: &*this.operation,
                                limit,
                                key: *this.key,
                                owned: PhantomData,
                                started,
                            };
                            return Poll::Ready(caller.answer(answered));
                        }
                        Answer::Later(answer) => {
                            this.state.set(State::Asked {
                                answer,
                                choice,
                                started,
                            });
                        }
                    }
                }
                StateProjection::Asked {
                    answer,
                    choice,
                    started,
                } => {
                    let answered = ready!(answer.poll(cx));
                    let caller = Caller {
                        limiter: *this.limiter,
                        operation: &*this.operation,
                        limit: algorithm.limit(choice),
                        key: *this.key,
                        owned: PhantomData,
                        started: *started,
                    };
                    let told = caller.answer(answered);
                    this.state.set(State::Done);
                    return Poll::Ready(told);
                }
                StateProjection::Done => panic!("{POLLED_AGAIN}"),
            }
        }
    }
}

impl<Op, C, S, K, Q, W> fmt::Debug for Call<'_, Op, C, S, K, Q, W>
where
    Op: Operation<C::Limit, K> + fmt::Debug,
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: ?Sized,
    W: Observe<K>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "local"))]
mod tests;
