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
    choice::{Choice, Choose},
    key::Key,
    limit::Limit,
    response::Respond,
    store::Store,
    store_error::HandleStoreError,
};

use super::{
    Expose, Options, Settings,
    service::{Annotation, expose, refuse, undecided},
};

pin_project! {
    /// A request that waits, with the inner service that was made ready for it.
    pub struct Held<Svc, Req, A, S, F, O, K>
    where
        A: Choice,
        K: Key,
        S: Store<A::Limit, K>,
    {
        settings: Arc<Settings<A, S, F, O>>,
        service: Svc,
        request: Option<Req>,
        #[pin]
        wait: Wait<A, S, K>,
    }
}

pin_project! {
    #[project = WaitProjection]
    enum Wait<A, S, K>
    where
        A: Choice,
        K: Key,
        S: Store<A::Limit, K>,
    {
        /// For the store.
        Decision { #[pin] deciding: S::Deciding, asked: Option<(A::Kept, K, u32)> },
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

impl<Svc, Req, A, S, F, O, K> Held<Svc, Req, A, S, F, O, K>
where
    A: Choice,
    K: Key,
    S: Store<A::Limit, K>,
{
    /// Until the store has decided what it was asked: under which choice, for which key, at which
    /// cost.
    pub(crate) fn until_decided(
        settings: Arc<Settings<A, S, F, O>>,
        service: Svc,
        request: Req,
        asked: (A::Kept, K, u32),
        deciding: S::Deciding,
    ) -> Self {
        Self {
            settings,
            service,
            request: Some(request),
            wait: Wait::Decision {
                deciding,
                asked: Some(asked),
            },
        }
    }

    /// Until its turn, although it is admitted.
    pub(crate) fn until_its_turn(
        settings: Arc<Settings<A, S, F, O>>,
        service: Svc,
        request: Req,
        asked: (A::Kept, K, u32),
        turn: (Admission<A>, Duration),
    ) -> Self {
        let wait = Wait::turn(&settings, asked, turn);
        Self {
            settings,
            service,
            request: Some(request),
            wait,
        }
    }
}

type Admission<A> = <<A as Choice>::Limit as Limit>::Snapshot;

impl<A: Choice, K: Key, S: Store<A::Limit, K>> Wait<A, S, K> {
    fn turn<F, O>(
        settings: &Settings<A, S, F, O>,
        (kept, key, cost): (A::Kept, K, u32),
        (admission, delay): (Admission<A>, Duration),
    ) -> Self {
        Self::Turn {
            sleep: sleep(delay),
            place: Place {
                store: settings.limiter.store().clone(),
                limit: settings.limiter.choice().kept(&kept).clone(),
                kept,
                key,
                cost,
                admission,
                is_taken: false,
            },
        }
    }
}

/// A place in a queue, given back when the request is dropped before its turn.
struct Place<A: Choice, S: Store<A::Limit, K>, K: Key> {
    store: S,
    limit: A::Limit,
    kept: A::Kept,
    key: K,
    cost: u32,
    admission: Admission<A>,
    is_taken: bool,
}

impl<A: Choice, S: Store<A::Limit, K>, K: Key> Drop for Place<A, S, K> {
    fn drop(&mut self) {
        if !self.is_taken {
            let (limit, key, admission) = (&self.limit, &self.key, &self.admission);
            self.store.withdraw(limit, key, admission, self.cost);
        }
    }
}

impl<Svc, Req, A, S, F, C, R, X, E, D, K> Held<Svc, Req, A, S, F, Options<C, R, X, E, D>, K>
where
    Svc: Service<Req>,
    A: Choose<Req>,
    K: Key,
    S: Store<A::Limit, K>,
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
        let (choice, annotates) = (
            settings.limiter.choice(),
            settings.options.respond.annotates(),
        );
        let mut wait = this.wait;
        loop {
            match wait.as_mut().project() {
                WaitProjection::Decision { deciding, asked } => {
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
                    let (kept, key, cost) = asked.take().expect("it is asked once");
                    let (limit, snapshot) = (choice.kept(&kept), &verdict.snapshot);
                    if !verdict.admitted {
                        let answer = refuse(settings, limit, &request, snapshot);
                        return Poll::Ready(Next::Answer(answer));
                    }
                    let delay = limit.delay_of(snapshot);
                    if delay.is_zero() {
                        expose(settings, limit, &mut request, snapshot);
                        let note = |kept| Annotation::of(settings, kept, snapshot);
                        let note = annotates.then(|| note(kept));
                        return Poll::Ready(Next::Inner(service.call(request), note));
                    }
                    *this.request = Some(request);
                    let turn = (verdict.snapshot, delay);
                    wait.set(Wait::turn(settings, (kept, key, cost), turn));
                }
                WaitProjection::Turn { sleep, place } => {
                    ready!(sleep.poll(cx));
                    place.is_taken = true;
                    let mut request = this.request.take().expect("polled after it was ready");
                    expose(settings, &place.limit, &mut request, &place.admission);
                    let note = || Annotation::of(settings, place.kept.clone(), &place.admission);
                    let note = annotates.then(note);
                    return Poll::Ready(Next::Inner(service.call(request), note));
                }
            }
        }
    }
}

impl<Svc, Req, A, S, F, O, K> fmt::Debug for Held<Svc, Req, A, S, F, O, K>
where
    A: Choice,
    K: Key,
    S: Store<A::Limit, K>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
