//! The future of a limited service.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    layer_for::{Admitted, LayerFor, StoreQuery},
    waiting::{Wait, Waited, Waiting},
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
        Layer: LayerFor<Svc, Req>,
    {
        #[pin]
        state: StateOf<Svc, Req, Layer>,
    }
}

pin_project! {
    #[project = StateProjection]
    pub(super) enum State<Fut, Annotation, Response, Waiting> {
        Plain { #[pin] future: Fut },
        Annotated { #[pin] future: Fut, annotation: Annotation },
        Answered { answer: Option<Response> },
        Waiting { waiting: Pin<Box<Waiting>> },
    }
}

/// The state of a response, in the types of its layer.
pub(super) type StateOf<Svc, Req, Layer> = State<
    <Svc as Service<Req>>::Future,
    Annotation<
        Layer,
        <Layer as LayerFor<Svc, Req>>::Choice,
        <Layer as LayerFor<Svc, Req>>::Snapshot,
    >,
    Result<<Svc as Service<Req>>::Response, <Layer as LayerFor<Svc, Req>>::Error>,
    Waiting<Svc, Req, Layer>,
>;

/// What is added to the response of an admitted request.
///
/// Every future has room for it, so it keeps the small snapshot and not the decision.
pub(super) struct Annotation<Layer, Choice, Snapshot> {
    layer: Arc<Layer>,
    admitted: Admitted<Choice, Snapshot>,
}

impl<Svc, Req, Layer> ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    #[inline]
    pub(super) fn new(state: StateOf<Svc, Req, Layer>) -> Self {
        Self { state }
    }
}

/// Calls the inner service, for a request that was not counted.
#[inline]
pub(super) fn call_uncounted<Svc, Req, Layer>(
    service: &mut Svc,
    request: Req,
) -> StateOf<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    let future = service.call(request);
    State::Plain { future }
}

/// Calls the inner service, for a request that was admitted.
#[inline]
pub(super) fn call_admitted<Svc, Req, Layer>(
    layer: &Arc<Layer>,
    service: &mut Svc,
    mut request: Req,
    mut admitted: Admitted<Layer::Choice, Layer::Snapshot>,
) -> StateOf<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    layer.expose(&mut request, &mut admitted);
    let Admitted {
        choice,
        snapshot,
        hold,
    } = admitted;
    // If no hold is kept, there is none to drop should the call panic.
    let hold = if Layer::KEEPS_HOLD { hold } else { None };
    let future = service.call(request);
    if !layer.annotates(&choice) && hold.is_none() {
        return State::Plain { future };
    }
    // Made last, so that it is not kept across the call.
    let annotation = Annotation {
        layer: Arc::clone(layer),
        admitted: Admitted {
            choice,
            snapshot,
            hold,
        },
    };
    State::Annotated { future, annotation }
}

/// Answers a request in the inner service's place.
#[inline]
pub(super) fn answered<Fut, Annotation, Response, Waiting>(
    answer: Response,
) -> State<Fut, Annotation, Response, Waiting> {
    let answer = Some(answer);
    State::Answered { answer }
}

/// Makes a request wait, with the inner service that was made ready for it.
pub(super) fn waiting<Svc, Req, Layer>(
    layer: &Arc<Layer>,
    service: Svc,
    request: Req,
    query: StoreQuery<Layer::Choice, Layer::Key, Layer::Stopwatch>,
    wait: Wait<Layer::Deciding, Layer::Snapshot>,
) -> StateOf<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    let waiting = Waiting::new(Arc::clone(layer), service, request, query, wait);
    State::Waiting {
        waiting: Box::pin(waiting),
    }
}

impl<Svc, Req, Layer> Future for ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    type Output = Result<Svc::Response, Layer::Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.as_mut().project().state.project() {
            StateProjection::Plain { future } => poll_plain::<Svc, Req, Layer>(future, cx),
            StateProjection::Annotated { future, annotation } => {
                poll_annotated::<Svc, Req, Layer>(future, annotation, cx)
            }
            _ => self.poll_other(cx),
        }
    }
}

/// Polls the inner service, for a request to whose response nothing is added.
#[inline]
fn poll_plain<Svc, Req, Layer>(
    future: Pin<&mut Svc::Future>,
    cx: &mut Context<'_>,
) -> Poll<Result<Svc::Response, Layer::Error>>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    future.poll(cx).map_err(Layer::inner_error)
}

/// Polls the inner service, settles the hold, and adds the rate-limit fields to its response.
#[inline]
fn poll_annotated<Svc, Req, Layer>(
    future: Pin<&mut Svc::Future>,
    annotation: &mut Annotation<Layer, Layer::Choice, Layer::Snapshot>,
    cx: &mut Context<'_>,
) -> Poll<Result<Svc::Response, Layer::Error>>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    let mut response = match ready!(future.poll(cx)) {
        Ok(response) => response,
        Err(error) => {
            // At once: the future may be kept for longer.
            annotation.admitted.hold = None;
            return Poll::Ready(Err(Layer::inner_error(error)));
        }
    };
    let (layer, admitted) = (&annotation.layer, &mut annotation.admitted);
    layer.annotate(&mut response, admitted);
    Poll::Ready(Ok(response))
}

impl<Svc, Req, Layer> ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    /// Polls the other states: an answer, or a request that waits.
    ///
    /// Not inlined into `poll`, so that `poll` is small enough to be inlined: that saves an eighth
    /// of a decision (`cargo bench -p tollgate-benches --bench layer`, headers off).
    #[cold]
    fn poll_other(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Svc::Response, Layer::Error>> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Plain { future } => {
                    return poll_plain::<Svc, Req, Layer>(future, cx);
                }
                StateProjection::Annotated { future, annotation } => {
                    return poll_annotated::<Svc, Req, Layer>(future, annotation, cx);
                }
                StateProjection::Answered { answer } => {
                    return Poll::Ready(answer.take().expect("polled after it was ready"));
                }
                StateProjection::Waiting { waiting } => {
                    let waited = ready!(waiting.as_mut().poll_waited(cx));
                    let (layer, service) = waiting.as_mut().layer_and_service();
                    match waited {
                        Waited::Uncounted(request) => call_uncounted(service, request),
                        Waited::Admitted(request, admitted) => {
                            call_admitted(layer, service, request, admitted)
                        }
                        Waited::Answered(answer) => answered(answer),
                    }
                }
            };
            state.set(next);
        }
    }
}

impl<Svc, Req, Layer> fmt::Debug for ResponseFuture<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
