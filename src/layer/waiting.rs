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
    layer_for::{Admitted, LayerFor, Next, StoreQuery},
    max_waiting::WaitPermit,
};

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
        query: Option<StoreQuery<Layer::Choice, Layer::Key, Layer::Stopwatch>>,
        #[pin]
        wait: Wait<Layer::Deciding, Layer::Snapshot>,
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
    pub(super) enum Wait<Deciding, Snapshot> {
        Decision { #[pin] deciding: Deciding },
        Turn { #[pin] sleep: Sleep, snapshot: Option<Snapshot>, permit: WaitPermit },
    }
}

/// A request whose wait is over.
pub(super) enum Waited<Req, Admitted, Answer> {
    /// The inner service is called; nothing was counted.
    Uncounted(Req),
    /// The inner service is called.
    Admitted(Req, Admitted),
    /// The request is answered in the inner service's place.
    Answered(Answer),
}

/// A request whose wait is over, in the types of its layer.
type WaitedOf<Svc, Req, Layer> = Waited<
    Req,
    Admitted<<Layer as LayerFor<Svc, Req>>::Choice, <Layer as LayerFor<Svc, Req>>::Snapshot>,
    Result<<Svc as Service<Req>>::Response, <Layer as LayerFor<Svc, Req>>::Error>,
>;

impl<Deciding, Snapshot> Wait<Deciding, Snapshot> {
    /// For the store.
    pub(super) fn decision(deciding: Deciding) -> Self {
        Self::Decision { deciding }
    }

    /// For its turn in the queue, although it is admitted.
    pub(super) fn turn(snapshot: Snapshot, delay: Duration, permit: WaitPermit) -> Self {
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
    pub(super) fn new(
        layer: Arc<Layer>,
        service: Svc,
        request: Req,
        query: StoreQuery<Layer::Choice, Layer::Key, Layer::Stopwatch>,
        wait: Wait<Layer::Deciding, Layer::Snapshot>,
    ) -> Self {
        Self {
            layer,
            service,
            request: Some(request),
            query: Some(query),
            wait,
        }
    }

    /// The layer, and the inner service that was made ready.
    pub(super) fn layer_and_service(self: Pin<&mut Self>) -> (&Arc<Layer>, &mut Svc) {
        let this = self.project();
        (this.layer, this.service)
    }

    /// Waits until the request is to go on to the inner service, or to be answered in its place.
    pub(super) fn poll_waited(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<WaitedOf<Svc, Req, Layer>> {
        const ONCE: &str = "polled after it was ready";

        let mut this = self.project();
        loop {
            match this.wait.as_mut().project() {
                WaitProjection::Decision { deciding } => {
                    let verdict = ready!(deciding.poll(cx));
                    let request = this.request.take().expect(ONCE);
                    let query = this.query.take().expect(ONCE);
                    let waited = match this.layer.after_verdict(&request, query, verdict) {
                        Next::Uncounted => Waited::Uncounted(request),
                        Next::Admitted(admitted) => Waited::Admitted(request, admitted),
                        Next::Answered(answer) => Waited::Answered(answer),
                        Next::Queued(query, snapshot, delay, permit) => {
                            (*this.request, *this.query) = (Some(request), Some(query));
                            this.wait.set(Wait::turn(snapshot, delay, permit));
                            continue;
                        }
                    };
                    return Poll::Ready(waited);
                }
                WaitProjection::Turn {
                    sleep, snapshot, ..
                } => {
                    ready!(sleep.poll(cx));
                    let request = this.request.take().expect(ONCE);
                    // Taken, so that dropping this gives no turn back.
                    let query = this.query.take().expect(ONCE);
                    let snapshot = snapshot.take().expect(ONCE);
                    let admitted = this.layer.with_hold(query, snapshot);
                    return Poll::Ready(Waited::Admitted(request, admitted));
                }
            }
        }
    }
}
