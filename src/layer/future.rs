//! The future of a limited service: the inner one, or an answer in its place, or a request that is
//! held.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use crate::{
    choice::Choose, key::Key, response::Respond, store::Store, store_error::HandleStoreError,
};

use super::{
    Expose, Options,
    service::Annotation,
    waiting::{Held, Next},
};

pin_project! {
    /// Brings the inner service's response, or the answer in its place.
    ///
    /// It has room for the inner future or an answer only: a request that has to wait, for its turn or
    /// for a store that is far away, waits in a box.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<Fut, Res, Err, Note, Wait> {
        #[pin]
        state: State<Fut, Res, Err, Note, Wait>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Fut, Res, Err, Note, Wait> {
        Inner { #[pin] future: Fut, note: Option<Note> },
        Answer { answer: Option<Result<Res, Err>> },
        Held { held: Pin<Box<Wait>> },
    }
}

impl<Fut, Res, Err, Note, Wait> ResponseFuture<Fut, Res, Err, Note, Wait> {
    #[inline]
    pub(crate) fn inner(future: Fut, note: Option<Note>) -> Self {
        let state = State::Inner { future, note };
        Self { state }
    }

    #[inline(always)]
    pub(crate) fn answer(answer: Result<Res, Err>) -> Self {
        let answer = Some(answer);
        let state = State::Answer { answer };
        Self { state }
    }

    pub(crate) fn held(held: Wait) -> Self {
        let held = Box::pin(held);
        let state = State::Held { held };
        Self { state }
    }
}

impl<Fut, Res, Err, Note, Wait> fmt::Debug for ResponseFuture<Fut, Res, Err, Note, Wait> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

impl<Svc, Req, A, S, F, C, R, X, E, D, K> Future
    for ResponseFuture<
        Svc::Future,
        Svc::Response,
        R::Error,
        Annotation<A, S, F, Options<C, R, X, E, D>>,
        Held<Svc, Req, A, S, F, Options<C, R, X, E, D>, K>,
    >
where
    Svc: Service<Req>,
    A: Choose<Req>,
    K: Key,
    S: Store<A::Limit, K>,
    R: Respond<Req, Svc::Response, Svc::Error>,
    E: HandleStoreError,
    D: Expose<Req>,
{
    type Output = Result<Svc::Response, R::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let StateProjection::Inner { future, note } = self.as_mut().project().state.project() {
            return Annotation::poll_inner::<Req, _, Svc::Error, _>(note, future, cx);
        }
        self.poll_in_its_place(cx)
    }
}

impl<Svc, Req, A, S, F, C, R, X, E, D, K>
    ResponseFuture<
        Svc::Future,
        Svc::Response,
        R::Error,
        Annotation<A, S, F, Options<C, R, X, E, D>>,
        Held<Svc, Req, A, S, F, Options<C, R, X, E, D>, K>,
    >
where
    Svc: Service<Req>,
    A: Choose<Req>,
    K: Key,
    S: Store<A::Limit, K>,
    R: Respond<Req, Svc::Response, Svc::Error>,
    E: HandleStoreError,
    D: Expose<Req>,
{
    /// Polls what is not, or not yet, the inner future.
    #[cold]
    fn poll_in_its_place(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Svc::Response, R::Error>> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Inner { future, note } => {
                    return Annotation::poll_inner::<Req, _, Svc::Error, _>(note, future, cx);
                }
                StateProjection::Answer { answer } => {
                    return Poll::Ready(answer.take().expect("polled after it was ready"));
                }
                StateProjection::Held { held } => ready!(held.as_mut().poll_next(cx)),
            };
            state.set(match next {
                Next::Inner(future, note) => State::Inner { future, note },
                Next::Answer(answer) => State::Answer {
                    answer: Some(answer),
                },
            });
        }
    }
}
