//! A request that waits: for a store that is far away, or for its turn in a queue.

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
    decide::{Admitted, Asked, LayerFor, Next},
    future::{StateOf, admitted, answered, uncounted},
};

pin_project! {
    /// A request that waits, with the inner service that was made ready for it.
    ///
    /// If it is dropped before its turn, its slot in the queue is given back.
    pub struct Waiting<Svc, Req, Layer>
    where
        Svc: Service<Req>,
        Layer: LayerFor<Svc, Req>,
    {
        layer: Arc<Layer>,
        service: Svc,
        request: Option<Req>,
        asked: Option<Asked<Layer::Choice, Layer::Key>>,
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
            if let (WaitProjection::Turn { admission, .. }, Some(asked)) = (this.wait.project(), this.asked) {
                this.layer.withdraw(asked, admission);
            }
        }
    }
}

pin_project! {
    #[project = WaitProjection]
    /// What a request waits for.
    pub(super) enum Wait<Deciding, Snapshot> {
        Decision { #[pin] deciding: Deciding },
        Turn { #[pin] sleep: Sleep, admission: Snapshot },
    }
}

impl<Deciding, Snapshot> Wait<Deciding, Snapshot> {
    /// For the store.
    pub(super) fn decision(deciding: Deciding) -> Self {
        Self::Decision { deciding }
    }

    /// For its turn in the queue, although it is admitted.
    pub(super) fn turn(admission: Snapshot, delay: Duration) -> Self {
        let sleep = sleep(delay);
        Self::Turn { sleep, admission }
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
        asked: Asked<Layer::Choice, Layer::Key>,
        wait: Wait<Layer::Deciding, Layer::Snapshot>,
    ) -> Self {
        Self {
            layer,
            service,
            request: Some(request),
            asked: Some(asked),
            wait,
        }
    }

    /// Waits until the request has gone on to the inner service, or was answered in its place.
    pub(super) fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<StateOf<Svc, Req, Layer>> {
        const ONCE: &str = "polled after it was ready";

        let mut this = self.project();
        let (layer, service) = (&*this.layer, this.service);
        loop {
            match this.wait.as_mut().project() {
                WaitProjection::Decision { deciding } => {
                    let verdict = ready!(deciding.poll(cx));
                    let request = this.request.take().expect(ONCE);
                    let Asked { choice, key, cost } = this.asked.take().expect(ONCE);
                    let asked = Asked {
                        choice,
                        key: || key,
                        cost,
                    };
                    let state = match layer.decided(&request, asked, verdict) {
                        Next::Uncounted => uncounted(service, request),
                        Next::Admitted(admission) => admitted(layer, service, request, admission),
                        Next::Answered(answer) => answered(answer),
                        Next::Queued(asked, admission, delay) => {
                            (*this.request, *this.asked) = (Some(request), Some(asked));
                            this.wait.set(Wait::turn(admission, delay));
                            continue;
                        }
                    };
                    return Poll::Ready(state);
                }
                WaitProjection::Turn { sleep, admission } => {
                    ready!(sleep.poll(cx));
                    let request = this.request.take().expect(ONCE);
                    // Taken, so that nothing is given back when this is dropped.
                    let choice = this.asked.take().expect(ONCE).choice;
                    let snapshot = admission.clone();
                    let admission = Admitted { choice, snapshot };
                    return Poll::Ready(admitted(layer, service, request, admission));
                }
            }
        }
    }
}
