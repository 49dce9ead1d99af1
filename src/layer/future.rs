//! The future of a limited service.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    LayerFor,
    layer_for::Next,
    waiting::{Wait, Waiting},
};

pin_project! {
    /// Returns the inner service's response, or the answer in its place.
    ///
    /// It has room only for the inner future or an answer: a request that has to wait, for its turn
    /// or for a remote store, waits in a box.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Svc: Clone,
        Layer: LayerFor<Svc, Req>,
    {
        #[pin]
        state: State<Svc, Req, Layer>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Svc: Clone,
        Layer: LayerFor<Svc, Req>,
    {
        Plain { #[pin] future: Svc::Future },
        // Something is added to the response. It keeps the small snapshot and not the decision:
        // every future has room for it.
        Annotated { #[pin] future: Svc::Future, layer: Arc<Layer>, admitted: Option<Layer::Admitted> },
        Answered { answer: Option<Result<Svc::Response, Layer::Error>> },
        Waiting { waiting: Pin<Box<Waiting<Svc, Req, Layer>>> },
    }
}

impl<Svc, Req, Layer> ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req> + Clone,
    Layer: LayerFor<Svc, Req>,
{
    /// Of a request that goes on to the inner service, with nothing to do when it is answered.
    #[inline]
    pub(super) fn plain(future: Svc::Future) -> Self {
        let state = State::Plain { future };
        Self { state }
    }

    /// Calls the inner service, for a request that was admitted.
    // Inlined always: else `admitted` is copied twice, and a layer with fields adds a fourteenth
    // more (bench `middleware`).
    #[inline(always)]
    pub(super) fn admitted(
        layer: &Arc<Layer>,
        service: &mut Svc,
        mut request: Req,
        mut admitted: Layer::Admitted,
    ) -> Self {
        let is_needed = layer.hand_over(&mut request, &mut admitted);
        let future = service.call(request);
        if !is_needed {
            return Self::plain(future);
        }
        let (layer, admitted) = (Arc::clone(layer), Some(admitted));
        let state = State::Annotated {
            future,
            layer,
            admitted,
        };
        Self { state }
    }

    /// Lets a request wait, with the inner service that was made ready.
    pub(super) fn waiting(
        layer: &Arc<Layer>,
        service: &mut Svc,
        request: Req,
        wait: Wait<Svc, Req, Layer>,
    ) -> Self {
        let waiting = Waiting::boxed(layer, take_ready(service), request, wait);
        let state = State::Waiting { waiting };
        Self { state }
    }

    /// Does what comes next for a request.
    pub(super) fn next(
        layer: &Arc<Layer>,
        service: &mut Svc,
        mut request: Req,
        next: Next<Layer, Svc, Req>,
    ) -> Self {
        match next {
            Next::Uncounted => Self::plain(service.call(request)),
            Next::Admitted(admitted) => {
                layer.expose_decision(&mut request, &admitted);
                Self::admitted(layer, service, request, admitted)
            }
            Next::Queued(queued, delay, permit) => {
                let wait = Waiting::turn(queued, delay, permit);
                Self::waiting(layer, service, request, wait)
            }
            Next::Answered(answer) => {
                // What the inner service had reserved to be ready (a permit of a concurrency limit,
                // for example) is released: the next call may never come.
                drop(take_ready(service));
                let state = State::Answered {
                    answer: Some(answer),
                };
                Self { state }
            }
        }
    }

    /// Polls the other states: an answer, or a request that waits.
    ///
    /// Not inlined into `poll`, so that `poll` is small enough to be inlined: that saves an eighth
    /// of a decision (`middleware` of `benches/peers`, fields off).
    #[cold]
    fn poll_other(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Svc::Response, Layer::Error>> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProjection::Answered { answer } => {
                    return Poll::Ready(answer.take().expect("polled after it was ready"));
                }
                StateProjection::Waiting { waiting } => {
                    let next = ready!(waiting.as_mut().poll_next(cx));
                    let (layer, service, request) = waiting.as_mut().parts();
                    Self::next(layer, service, request, next)
                }
                _ => return self.poll(cx),
            };
            self.set(next);
        }
    }
}

/// Takes the service that was made ready, for a request, and leaves a clone in its place.
fn take_ready<Svc: Clone>(service: &mut Svc) -> Svc {
    let clone = service.clone();
    mem::replace(service, clone)
}

impl<Svc, Req, Layer> Future for ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req> + Clone,
    Layer: LayerFor<Svc, Req>,
{
    type Output = Result<Svc::Response, Layer::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.as_mut().project().state.project() {
            StateProjection::Plain { future } => future.poll(cx).map_err(Layer::inner_error),
            StateProjection::Annotated {
                future,
                layer,
                admitted,
            } => {
                let mut answer = ready!(future.poll(cx));
                // At once, even if there is no response: the future may be kept for longer.
                if let Some(admitted) = admitted.take() {
                    layer.finish(&mut answer, admitted);
                }
                Poll::Ready(answer.map_err(Layer::inner_error))
            }
            _ => self.poll_other(cx),
        }
    }
}

impl<Svc, Req, Layer> fmt::Debug for ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req> + Clone,
    Layer: LayerFor<Svc, Req>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
