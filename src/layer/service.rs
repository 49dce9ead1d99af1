//! The service: decides, then calls the inner service or answers in its place.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use crate::{response::Http, store::LocalStore};

use super::{InnerService, LayerFor, RateLimitLayer, ResponseFuture};

/// Lets a request through to the inner service, or answers it in its place; made by a
/// [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is ready when the inner service is. `poll_ready` charges nothing: `call` decides, once per
/// request, and calls the inner service only after that. A refused request never reaches the inner
/// service, and the permit that the inner service had reserved to be ready is released. Dropping a
/// response does not give units back.
///
/// # When it implements `Service<Req>`
///
/// | its | is |
/// |---|---|
/// | service | `Clone`, and a `Service<Req>` |
/// | algorithm | a [`Limit`](crate::algorithm::Limit), or [chooses](crate::choice) one for each `Req` |
/// | key | a [`KeyExtractor<Req>`](crate::key::KeyExtractor); for an [`EachOf`](crate::EachOf) one of each limit; or the `rules::Rules` that are the algorithm, too |
/// | store | a [`Store`](crate::store::Store) for that limit and that key |
/// | answer | a [`Respond<Req, Response, Error>`](crate::response::Respond) |
///
///
/// axum, tonic and every function that takes a service make the compiler say what is missing: a key
/// for this type of request, a store for this algorithm, a body that a refusal can be written in.
/// For a *method* call the compiler says only that `ready` or `oneshot` "exists, but its trait
/// bounds were not satisfied". Write `tower::ServiceExt::oneshot(service, request)` instead, and it
/// says which.
#[derive(Clone)]
pub struct RateLimit<Svc, Algo, Store, KeyFn, Resp = Http, Opts = ()> {
    inner: Svc,
    layer: Arc<RateLimitLayer<Algo, Store, KeyFn, Resp, Opts>>,
}

/// Short for a service over a [`LocalStore`], to write its type in a signature.
pub type LocalRateLimit<Svc, Algo, Key, KeyFn, Resp = Http, Opts = ()> =
    RateLimit<Svc, Algo, LocalStore<Algo, Key>, KeyFn, Resp, Opts>;

impl<Svc, A, S, F, R, O> RateLimit<Svc, A, S, F, R, O> {
    pub(super) fn new(inner: Svc, layer: RateLimitLayer<A, S, F, R, O>) -> Self {
        let layer = Arc::new(layer);
        Self { inner, layer }
    }
}

impl<Svc: fmt::Debug, A, S, F, R, O> fmt::Debug for RateLimit<Svc, A, S, F, R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<Svc, Req, A, S, F, R, O> Service<Req> for RateLimit<Svc, A, S, F, R, O>
where
    Svc: Service<Req> + InnerService,
    RateLimitLayer<A, S, F, R, O>: LayerFor<Svc, Req>,
{
    type Response = Svc::Response;
    type Error = <RateLimitLayer<A, S, F, R, O> as LayerFor<Svc, Req>>::Error;
    type Future = ResponseFuture<Svc, Req, RateLimitLayer<A, S, F, R, O>>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let ready = self.inner.poll_ready(cx);
        ready.map_err(RateLimitLayer::<A, S, F, R, O>::inner_error)
    }

    #[inline]
    fn call(&mut self, request: Req) -> Self::Future {
        self.layer.call(&mut self.inner, request)
    }
}
