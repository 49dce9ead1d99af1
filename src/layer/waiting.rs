//! A request that waits: for a remote store, or for its turn in a queue.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::{
    LayerFor,
    layer_for::{Next, Snapshot},
    max_waiting::WaitPermit,
};

const ONCE: &str = "polled after it was ready";

pin_project! {
    /// A request that waits, with the inner service that was made ready for it.
    ///
    /// If it is dropped before its turn, the turn is given back.
    pub struct Waiting<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Layer: LayerFor<Svc, Req>,
    {
        layer: Arc<Layer>,
        service: Svc,
        request: Option<Req>,
        query: Option<Layer::Query>,
        #[pin]
        wait: Wait<Layer::Deciding, Layer::Stored>,
    }

    impl<Svc, Req, Layer> PinnedDrop for Waiting<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Layer: LayerFor<Svc, Req>,
    {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (WaitProjection::Turn { snapshot: Some(snapshot), .. }, Some(query)) = (this.wait.project(), this.query) {
                this.layer.withdraw(query, snapshot);
            }
        }
    }
}

pin_project! {
    #[project = WaitProjection]
    /// What a request waits for.
    pub(super) enum Wait<Deciding, Stored> {
        Decision { #[pin] deciding: Deciding },
        Turn { #[pin] sleep: Sleep, snapshot: Option<Snapshot<Stored>>, permit: WaitPermit },
    }
}

impl<Deciding, Stored> Wait<Deciding, Stored> {
    /// For its turn in the queue, although it is admitted.
    pub(super) fn turn(snapshot: Snapshot<Stored>, delay: Duration, permit: WaitPermit) -> Self {
        Self::Turn {
            sleep: sleep(delay),
            snapshot: Some(snapshot),
            permit,
        }
    }
}

impl<Svc, Req, Layer> Waiting<Svc, Req, Layer>
where
    Svc: Service<Req>,
    Layer: LayerFor<Svc, Req>,
{
    pub(super) fn boxed(
        layer: &Arc<Layer>,
        service: Svc,
        request: Req,
        query: Layer::Query,
        wait: Wait<Layer::Deciding, Layer::Stored>,
    ) -> Pin<Box<Self>> {
        Box::pin(Self {
            layer: Arc::clone(layer),
            service,
            request: Some(request),
            query: Some(query),
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
        // What is taken is gone when this is dropped: then no turn is given back.
        Poll::Ready(match this.wait.project() {
            WaitProjection::Decision { deciding } => {
                let verdict = ready!(deciding.poll(cx));
                let request = this.request.as_ref().expect(ONCE);
                let query = this.query.take().expect(ONCE);
                this.layer.after_verdict(request, query, verdict)
            }
            WaitProjection::Turn {
                sleep, snapshot, ..
            } => {
                ready!(sleep.poll(cx));
                let query = this.query.take().expect(ONCE);
                let snapshot = snapshot.take().expect(ONCE);
                Next::Admitted(this.layer.admit(query, snapshot))
            }
        })
    }
}
