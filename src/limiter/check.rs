//! The future of a check by hand.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

use crate::{
    choice::Choose,
    decision::Decision,
    error::StoreError,
    key::Key,
    limit::Limit,
    store::{Answer, AsKey, Store},
};

use super::RateLimiter;

pin_project! {
    /// Decides when it is first polled: before that, nothing is charged.
    ///
    /// Hand-written future: avoids moving `Decision`.
    #[must_use = "futures do nothing unless polled"]
    pub(super) struct Check<'a, C, S, K, Q>
    where
        C: Choose<()>,
        S: Store<C::Limit, K>,
        K: Key,
        Q: ?Sized,
    {
        limiter: &'a RateLimiter<C, S>,
        key: &'a Q,
        cost: u32,
        #[pin]
        state: State<S::Deciding, C::Choice>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Deciding, Choice> {
        Asked,
        Undecided { #[pin] deciding: Deciding, choice: Choice },
        Done,
    }
}

impl<'a, C, S, K, Q> Check<'a, C, S, K, Q>
where
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: ?Sized,
{
    #[inline]
    pub(super) fn new(limiter: &'a RateLimiter<C, S>, key: &'a Q, cost: u32) -> Self {
        Self {
            limiter,
            key,
            cost,
            state: State::Asked,
        }
    }
}

impl<C, S, K, Q> Future for Check<'_, C, S, K, Q>
where
    C: Choose<()>,
    S: Store<C::Limit, K>,
    K: Key,
    Q: AsKey<K> + ?Sized,
{
    type Output = Result<Decision, StoreError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (algorithm, store) = (this.limiter.algorithm(), this.limiter.store());
        loop {
            match this.state.as_mut().project() {
                StateProjection::Asked => {
                    let choice = algorithm.choose(&());
                    let limit = algorithm.limit(&choice);
                    match store.decide(limit, *this.key, *this.cost) {
                        Answer::Now(verdict) => {
                            this.state.set(State::Done);
                            return Poll::Ready(match verdict {
                                Ok(verdict) => Ok(limit.decision_of(&verdict.snapshot)),
                                Err(error) => Err(error),
                            });
                        }
                        Answer::Later(deciding) => {
                            this.state.set(State::Undecided { deciding, choice });
                        }
                    }
                }
                StateProjection::Undecided { deciding, choice } => {
                    let verdict = ready!(deciding.poll(cx));
                    let limit = algorithm.limit(choice);
                    let decision = verdict.map(|verdict| limit.decision_of(&verdict.snapshot));
                    this.state.set(State::Done);
                    return Poll::Ready(decision);
                }
                StateProjection::Done => panic!("polled after it was ready"),
            }
        }
    }
}

#[cfg(all(test, feature = "local"))]
mod tests {
    use std::{pin::pin, task::Waker};

    use crate::{Quota, algorithm::TokenBucket, store::LocalStore};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn nothing_is_charged_before_it_is_polled() {
        let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(1)), LocalStore::new());
        drop(limiter.check("bob"));
        let [first, second] = [limiter.check("bob"), limiter.check("bob")];
        let told = [second, first].map(|check| poll(pin!(check)));
        let admitted = told.map(|told| matches!(told, Poll::Ready(Ok(told)) if told.is_admitted()));
        assert_eq!(admitted, [true, false]);
    }

    #[test]
    #[should_panic(expected = "polled after it was ready")]
    fn it_decides_once() {
        let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
        let mut check = pin!(limiter.check("bob"));
        assert!(poll(check.as_mut()).is_ready());
        let _ = poll(check);
    }

    #[test]
    fn it_goes_from_thread_to_thread() {
        fn sent<T: Send>(_: T) {}
        let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(2)), LocalStore::new());
        sent(limiter.check("bob"));
    }
}
