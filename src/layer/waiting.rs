//! A request that waits: for a remote store, or for its turn in a queue.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tower_service::Service;

use super::{
    LayerFor,
    layer_for::{Next, Snapshot},
};

const ONCE: &str = "polled after it was ready";

/// Lets one request wait, until it is dropped.
pub(super) type WaitPermit = OwnedSemaphorePermit;

/// Lets at most so many requests wait for their turns, of all keys together.
pub(super) fn max_waiting(requests: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(requests.min(Semaphore::MAX_PERMITS)))
}

/// A turn in a queue. If it is dropped before it has come, it is given back.
pub struct Turn<Svc: Service<Req> + Clone, Req, Layer: LayerFor<Svc, Req>> {
    layer: Arc<Layer>,
    queued: Option<(Layer::Query, Snapshot<Layer::Stored>)>,
}

impl<Svc: Service<Req> + Clone, Req, Layer: LayerFor<Svc, Req>> Turn<Svc, Req, Layer> {
    pub(super) fn new(
        layer: &Arc<Layer>,
        query: Layer::Query,
        snapshot: Snapshot<Layer::Stored>,
    ) -> Self {
        let layer = Arc::clone(layer);
        let queued = Some((query, snapshot));
        Self { layer, queued }
    }

    pub(super) fn queued(&self) -> &(Layer::Query, Snapshot<Layer::Stored>) {
        self.queued.as_ref().expect(ONCE)
    }

    fn has_come(&mut self) -> Layer::Admitted {
        let (query, snapshot) = self.queued.take().expect(ONCE);
        self.layer.admit(query, snapshot)
    }
}

impl<Svc: Service<Req> + Clone, Req, Layer: LayerFor<Svc, Req>> Drop for Turn<Svc, Req, Layer> {
    fn drop(&mut self) {
        if let Some((query, snapshot)) = &self.queued {
            self.layer.withdraw(query, snapshot);
        }
    }
}

pin_project! {
    /// A request that waits, with the inner service that was made ready for it.
    pub struct Waiting<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Svc: Clone,
        Layer: LayerFor<Svc, Req>,
    {
        layer: Arc<Layer>,
        service: Svc,
        request: Option<Req>,
        #[pin]
        wait: Wait<Svc, Req, Layer>,
    }
}

pin_project! {
    #[project = WaitProjection]
    /// What a request waits for.
    pub(super) enum Wait<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Svc: Clone,
        Layer: LayerFor<Svc, Req>,
    {
        Decision { query: Option<Layer::Query>, #[pin] deciding: Layer::Deciding },
        Turn { turn: Turn<Svc, Req, Layer>, #[pin] sleep: Sleep, permit: WaitPermit },
    }
}

impl<Svc, Req, Layer> Wait<Svc, Req, Layer>
where
    Svc: Service<Req> + Clone,
    Layer: LayerFor<Svc, Req>,
{
    /// For its turn in the queue, although it is admitted.
    pub(super) fn turn(turn: Turn<Svc, Req, Layer>, delay: Duration, permit: WaitPermit) -> Self {
        let sleep = sleep(delay);
        Self::Turn {
            turn,
            sleep,
            permit,
        }
    }
}

impl<Svc, Req, Layer> Waiting<Svc, Req, Layer>
where
    Svc: Service<Req> + Clone,
    Layer: LayerFor<Svc, Req>,
{
    pub(super) fn boxed(
        layer: &Arc<Layer>,
        service: Svc,
        request: Req,
        wait: Wait<Svc, Req, Layer>,
    ) -> Pin<Box<Self>> {
        Box::pin(Self {
            layer: Arc::clone(layer),
            service,
            request: Some(request),
            wait,
        })
    }

    /// The layer, the inner service that was made ready, and the request for it.
    pub(super) fn parts(self: Pin<&mut Self>) -> (&Arc<Layer>, &mut Svc, Req) {
        let this = self.project();
        let request = this.request.take().expect(ONCE);
        (this.layer, this.service, request)
    }

    /// Polls what the request waits for, and says what comes next.
    pub(super) fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Next<Layer, Svc, Req>> {
        let this = self.project();
        Poll::Ready(match this.wait.project() {
            WaitProjection::Decision { query, deciding } => {
                let verdict = ready!(deciding.poll(cx));
                let request = this.request.as_ref().expect(ONCE);
                let query = query.take().expect(ONCE);
                this.layer.after_verdict(request, query, verdict)
            }
            WaitProjection::Turn { turn, sleep, .. } => {
                ready!(sleep.poll(cx));
                Next::Admitted(turn.has_come())
            }
        })
    }
}
