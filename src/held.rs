//! A request that waits: for a store that is far away, or for its turn in a queue.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::{
    algorithm::Algorithm,
    expose::Expose,
    key::{Key, KeyExtractor},
    layer::{Options, Settings},
    limiter::RateLimiter,
    response::Respond,
    service::{Annotation, annotate, refuse, undecided},
    store::Store,
    store_error::HandleStoreError,
};

pin_project! {
    /// A request that waits, with the inner service that was made ready for it.
    pub struct Held<Svc, Req, A, S, F, O>
    where
        A: Algorithm,
        F: KeyExtractor<Req>,
        S: Store<A, F::Key>,
    {
        settings: Arc<Settings<A, S, F, O>>,
        service: Svc,
        request: Option<Req>,
        #[pin]
        wait: Wait<A, S, F::Key>,
    }
}

pin_project! {
    #[project = WaitProjection]
    enum Wait<A, S, K>
    where
        A: Algorithm,
        K: Key,
        S: Store<A, K>,
    {
        /// For the store.
        Decision { #[pin] deciding: S::Deciding, key: Option<K>, cost: u32 },
        /// For its turn.
        Turn { #[pin] sleep: Sleep, place: Place<A, S, K> },
    }
}

/// What comes after the wait.
pub(crate) enum Next<Fut, Note, Answer> {
    /// The request went on to the inner service.
    Inner(Fut, Option<Note>),
    /// It was answered in its place.
    Answer(Answer),
}

impl<Svc, Req, A, S, F, O> Held<Svc, Req, A, S, F, O>
where
    A: Algorithm,
    F: KeyExtractor<Req>,
    S: Store<A, F::Key>,
{
    /// Until the store has decided.
    pub(crate) fn until_decided(
        settings: Arc<Settings<A, S, F, O>>,
        service: Svc,
        request: Req,
        (key, cost): (F::Key, u32),
        deciding: S::Deciding,
    ) -> Self {
        Self {
            settings,
            service,
            request: Some(request),
            wait: Wait::Decision {
                deciding,
                key: Some(key),
                cost,
            },
        }
    }

    /// Until its turn, although it is admitted.
    pub(crate) fn until_its_turn(
        settings: Arc<Settings<A, S, F, O>>,
        service: Svc,
        request: Req,
        (key, cost): (F::Key, u32),
        (admission, delay): (A::Snapshot, Duration),
    ) -> Self {
        let limiter = settings.limiter.clone();
        Self {
            settings,
            service,
            request: Some(request),
            wait: Wait::turn(limiter, (key, cost), (admission, delay)),
        }
    }
}

impl<A: Algorithm, K: Key, S: Store<A, K>> Wait<A, S, K> {
    fn turn(
        limiter: RateLimiter<A, S>,
        (key, cost): (K, u32),
        (admission, delay): (A::Snapshot, Duration),
    ) -> Self {
        Self::Turn {
            sleep: sleep(delay),
            place: Place {
                limiter,
                key,
                cost,
                admission,
                is_taken: false,
            },
        }
    }
}

/// A place in a queue, given back when the request is dropped before its turn.
struct Place<A: Algorithm, S: Store<A, K>, K: Key> {
    limiter: RateLimiter<A, S>,
    key: K,
    cost: u32,
    admission: A::Snapshot,
    is_taken: bool,
}

impl<A: Algorithm, S: Store<A, K>, K: Key> Drop for Place<A, S, K> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.limiter.withdraw(&self.key, &self.admission, self.cost);
        }
    }
}

impl<Svc, Req, A, S, F, C, R, X, E, D> Held<Svc, Req, A, S, F, Options<C, R, X, E, D>>
where
    Svc: Service<Req>,
    A: Algorithm,
    F: KeyExtractor<Req>,
    S: Store<A, F::Key>,
    R: Respond<Req, Svc::Response, Svc::Error>,
    E: HandleStoreError,
    D: Expose<Req>,
{
    #[expect(
        clippy::type_complexity,
        reason = "what comes next, in the words of the future that asks"
    )]
    pub(crate) fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<
        Next<
            Svc::Future,
            Annotation<A, S, F, Options<C, R, X, E, D>>,
            Result<Svc::Response, R::Error>,
        >,
    > {
        let this = self.project();
        let (settings, service) = (&*this.settings, this.service);
        let mut wait = this.wait;
        loop {
            match wait.as_mut().project() {
                WaitProjection::Decision {
                    deciding,
                    key,
                    cost,
                } => {
                    let verdict = ready!(deciding.poll(cx));
                    let mut request = this.request.take().expect("polled after it was ready");
                    let verdict = match verdict {
                        Ok(verdict) => verdict,
                        Err(error) => {
                            return Poll::Ready(match undecided(settings, &request, &error) {
                                Some(answer) => Next::Answer(answer),
                                None => Next::Inner(service.call(request), None),
                            });
                        }
                    };
                    if !verdict.admitted {
                        return Poll::Ready(Next::Answer(refuse(settings, &request, &verdict)));
                    }
                    let delay = settings.limiter.algorithm().delay(&verdict.snapshot);
                    if delay.is_zero() {
                        let annotates = settings.options.respond.annotates();
                        let admission = &verdict.snapshot;
                        let note = annotate(settings, &mut request, admission, annotates);
                        return Poll::Ready(Next::Inner(service.call(request), note));
                    }
                    *this.request = Some(request);
                    let key = key.take().expect("it is taken once");
                    let (charge, limiter) = ((key, *cost), settings.limiter.clone());
                    wait.set(Wait::turn(limiter, charge, (verdict.snapshot, delay)));
                }
                WaitProjection::Turn { sleep, place } => {
                    ready!(sleep.poll(cx));
                    place.is_taken = true;
                    let mut request = this.request.take().expect("polled after it was ready");
                    let annotates = settings.options.respond.annotates();
                    let note = annotate(settings, &mut request, &place.admission, annotates);
                    return Poll::Ready(Next::Inner(service.call(request), note));
                }
            }
        }
    }
}

impl<Svc, Req, A, S, F, O> fmt::Debug for Held<Svc, Req, A, S, F, O>
where
    A: Algorithm,
    F: KeyExtractor<Req>,
    S: Store<A, F::Key>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
