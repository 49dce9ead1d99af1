//! The service: decides, then calls the inner service or answers in its place.

use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use crate::store::{Answer, LocalStore};

use super::{
    InnerService, LayerFor, Options, RateLimitLayer, ResponseFuture,
    future::State,
    layer_for::{Next, VerdictOf},
    waiting::{Wait, Waiting},
};

/// Lets a request through to the inner service, or answers it in its place; made by a
/// [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is ready when the inner service is. `poll_ready` charges nothing: `call` decides, once per
/// request, and calls the inner service only after that. A refused request never reaches the inner
/// service, and the permit that the inner service had reserved to be ready is released. Dropping a
/// response does not give units back.
///
/// # When it does not implement `Service`
///
/// axum, tonic and every function that takes a service make the compiler say what is missing: a key
/// for this type of request, a store for this algorithm, a body that a refusal can be written in.
/// For a *method* call the compiler says only that `ready` or `oneshot` "exists, but its trait
/// bounds were not satisfied". Write `tower::ServiceExt::oneshot(service, request)` instead, and it
/// says which.
pub struct RateLimit<Svc, Algo, Store, KeyFn, Opts = Options> {
    inner: Svc,
    layer: Arc<RateLimitLayer<Algo, Store, KeyFn, Opts>>,
}

/// A service with a [`LocalStore`], whose type would name the algorithm twice.
pub type LocalRateLimit<Svc, Algo, Key, KeyFn, Opts = Options> =
    RateLimit<Svc, Algo, LocalStore<Algo, Key>, KeyFn, Opts>;

impl<Svc, A, S, F, O> RateLimit<Svc, A, S, F, O> {
    pub(super) fn new(inner: Svc, layer: RateLimitLayer<A, S, F, O>) -> Self {
        let layer = Arc::new(layer);
        Self { inner, layer }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &Svc {
        &self.inner
    }

    /// The inner service. Direct calls of it are not counted.
    pub fn get_mut(&mut self) -> &mut Svc {
        &mut self.inner
    }

    /// The inner service, without the limit.
    pub fn into_inner(self) -> Svc {
        self.inner
    }
}

impl<Svc: Clone, A, S, F, O> Clone for RateLimit<Svc, A, S, F, O> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: Arc::clone(&self.layer),
        }
    }
}

impl<Svc: fmt::Debug, A, S, F, O> fmt::Debug for RateLimit<Svc, A, S, F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<Svc, Req, A, S, F, O> Service<Req> for RateLimit<Svc, A, S, F, O>
where
    Svc: Service<Req> + InnerService,
    RateLimitLayer<A, S, F, O>: LayerFor<Svc, Req>,
{
    type Response = Svc::Response;
    type Error = <RateLimitLayer<A, S, F, O> as LayerFor<Svc, Req>>::Error;
    type Future = ResponseFuture<Svc, Req, RateLimitLayer<A, S, F, O>>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let ready = self.inner.poll_ready(cx);
        ready.map_err(RateLimitLayer::<A, S, F, O>::inner_error)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        // For speed, what is rare is a function of its own, which takes the request by value, and
        // no two branches share a result. A request that such a function borrows is copied before
        // the inner service gets it, and a key that is taken out of a shared result is written to
        // memory and read again five times. It gives a fifth of a layer without fields (bench
        // `layer`, "off").
        let key = match self.layer.key_of(&request) {
            Ok(Some(key)) => key,
            Ok(None) => return ResponseFuture::new(State::uncounted(&mut self.inner, request)),
            Err(rejection) => return ResponseFuture::new(self.reject(request, rejection)),
        };
        let query = self.layer.query_of(&request, key);
        match self.layer.ask_store(&query) {
            Answer::Now(Ok(verdict))
                if verdict.admitted && self.layer.goes_at_once(&query, &verdict.snapshot) =>
            {
                let snapshot = RateLimitLayer::<A, S, F, O>::stored(verdict.snapshot);
                let admitted = self.layer.observe_and_admit(query, snapshot);
                let (layer, inner) = (&self.layer, &mut self.inner);
                ResponseFuture::new(State::admitted(layer, inner, request, admitted))
            }
            Answer::Now(verdict) => ResponseFuture::new(self.proceed(request, query, verdict)),
            Answer::Later(deciding) => {
                let (service, wait) = (self.take_ready(), Wait::decision(deciding));
                let waiting = Waiting::new(&self.layer, service, request, query, wait);
                ResponseFuture::new(State::waiting(waiting))
            }
        }
    }
}

impl<Svc, A, S, F, O> RateLimit<Svc, A, S, F, O> {
    /// Answers a request that must have a key and has none, or calls the inner service if no limit
    /// is enforced.
    #[cold]
    fn reject<Req>(
        &mut self,
        request: Req,
        rejection: <RateLimitLayer<A, S, F, O> as LayerFor<Svc, Req>>::Rejection,
    ) -> State<Svc, Req, RateLimitLayer<A, S, F, O>>
    where
        Svc: Service<Req> + InnerService,
        RateLimitLayer<A, S, F, O>: LayerFor<Svc, Req>,
    {
        match self.layer.reject(&request, rejection) {
            Some(answer) => self.answer_instead(answer),
            None => State::uncounted(&mut self.inner, request),
        }
    }

    /// Does what comes after the store's verdict.
    #[inline(never)]
    fn proceed<Req>(
        &mut self,
        request: Req,
        query: <RateLimitLayer<A, S, F, O> as LayerFor<Svc, Req>>::Query,
        verdict: VerdictOf<RateLimitLayer<A, S, F, O>, Svc, Req>,
    ) -> State<Svc, Req, RateLimitLayer<A, S, F, O>>
    where
        Svc: Service<Req> + InnerService,
        RateLimitLayer<A, S, F, O>: LayerFor<Svc, Req>,
    {
        match self.layer.after_verdict(&request, query, verdict) {
            Next::Uncounted => State::uncounted(&mut self.inner, request),
            Next::Admitted(admitted) => {
                let (layer, inner) = (&self.layer, &mut self.inner);
                State::admitted(layer, inner, request, admitted)
            }
            Next::Queued(query, snapshot, delay, permit) => {
                let (service, wait) = (self.take_ready(), Wait::turn(snapshot, delay, permit));
                State::waiting(Waiting::new(&self.layer, service, request, query, wait))
            }
            Next::Answered(answer) => self.answer_instead(answer),
        }
    }
}

impl<Svc: Clone, A, S, F, O> RateLimit<Svc, A, S, F, O> {
    /// Answers in the place of the inner service. What the inner service had reserved to be ready
    /// (a permit of a concurrency limit, for example) is released: the next call may never come.
    #[cold]
    fn answer_instead<Req, L>(
        &mut self,
        answer: Result<Svc::Response, L::Error>,
    ) -> State<Svc, Req, L>
    where
        Svc: Service<Req>,
        L: LayerFor<Svc, Req>,
    {
        drop(self.take_ready());
        State::answered(answer)
    }

    /// Takes the service that was made ready, for a request, and leaves a clone in its place.
    fn take_ready(&mut self) -> Svc {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}
