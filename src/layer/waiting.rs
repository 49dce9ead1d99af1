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
    layer_for::{Next, Queued},
};

const ONCE: &str = "polled after it was ready";

/// Lets one request wait, until it is dropped.
pub(super) type WaitPermit = OwnedSemaphorePermit;

/// Lets at most so many requests wait for their turns, of all keys together.
pub(super) fn max_waiting(requests: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(requests.min(Semaphore::MAX_PERMITS)))
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

    // A turn that has not come is given back.
    impl<Svc, Req, Layer> PinnedDrop for Waiting<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Svc: Clone,
        Layer: LayerFor<Svc, Req>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let WaitProjection::Turn { queued: Some((query, snapshot)), .. } = this.wait.project() {
                this.layer.withdraw(query, snapshot);
            }
        }
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
        Turn { queued: Option<Queued<Svc, Req, Layer>>, #[pin] sleep: Sleep, permit: WaitPermit },
    }
}

impl<Svc, Req, Layer> Waiting<Svc, Req, Layer>
where
    Svc: Service<Req> + Clone,
    Layer: LayerFor<Svc, Req>,
{
    /// What to wait for until its turn in the queue, although the request is admitted.
    pub(super) fn turn(
        queued: Queued<Svc, Req, Layer>,
        delay: Duration,
        permit: WaitPermit,
    ) -> Wait<Svc, Req, Layer> {
        Wait::Turn {
            queued: Some(queued),
            sleep: sleep(delay),
            permit,
        }
    }

    pub(super) fn boxed(
        layer: &Arc<Layer>,
        service: Svc,
        request: Req,
        wait: Wait<Svc, Req, Layer>,
    ) -> Pin<Box<Self>> {
        let waiting = Self {
            layer: Arc::clone(layer),
            service,
            request: Some(request),
            wait,
        };
        if let Some(request) = &waiting.request
            && let Wait::Turn { queued, .. } = &waiting.wait
            && let Some((query, snapshot)) = queued
        {
            // If it panics, the turn is given back.
            layer.notify_admitted(request, query, snapshot);
        }
        Box::pin(waiting)
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
            WaitProjection::Turn { queued, sleep, .. } => {
                ready!(sleep.poll(cx));
                let (query, snapshot) = queued.take().expect(ONCE);
                Next::Admitted(this.layer.admit(query, snapshot, None))
            }
        })
    }
}
