//! The trait of a layer that fits a service: its service, future and waiting requests use it.

use std::{future::Future, sync::Arc, time::Duration};

use tower_service::Service;

use crate::{decision::Decision, error::StoreError, store::Verdict};

use super::{ResponseFuture, waiting::WaitPermit};

/// A layer whose algorithm, store, key and options fit this service and its requests.
///
/// Its one implementation, in `decide.rs`, has all the bounds. The service, its future and a
/// request that waits need only this trait.
pub trait LayerFor<Svc: Service<Req> + Clone, Req>: Sized {
    /// What the store is asked: whether a cost fits, for a key, under the chosen limit.
    type Query: Send + 'static;
    /// The store's snapshot of the bucket right after the decision.
    type Stored: Send + 'static;
    /// A request that was admitted, and what it holds.
    type Admitted: Send + 'static;
    /// The future of a decision.
    type Deciding: Future<Output = VerdictOf<Self::Stored>>;
    /// The error of the limited service.
    type Error;

    /// Decides about a request, as far as that is possible now; calls the observer, and the inner
    /// service if the request goes on at once.
    fn call(self: &Arc<Self>, inner: &mut Svc, request: Req) -> ResponseFuture<Svc, Req, Self>;

    /// Says what comes after the store's verdict, and calls the observer, unless the request is to
    /// wait for its turn.
    fn after_verdict(
        &self,
        request: &Req,
        query: Self::Query,
        verdict: VerdictOf<Self::Stored>,
    ) -> Next<Self, Svc, Req>;

    /// Admits a request. It holds its cost if the limit is settled, or its place in flight. The
    /// observer is [called](Self::notify_admitted) with the request that is given: it has seen one
    /// that had to wait for its turn before.
    fn admit(
        &self,
        query: Self::Query,
        snapshot: Snapshot<Self::Stored>,
        notify: Option<&Req>,
    ) -> Self::Admitted;

    /// Charges an admitted request to the fallback too, and calls the observer.
    fn notify_admitted(
        &self,
        request: &Req,
        query: &Self::Query,
        snapshot: &Snapshot<Self::Stored>,
    );

    /// Gives back the turn of a request that was dropped while it waited.
    fn withdraw(&self, query: &Self::Query, snapshot: &Snapshot<Self::Stored>);

    /// Puts the decision where handlers find it, if it is exposed.
    fn expose_decision(&self, request: &mut Req, admitted: &Self::Admitted);

    /// Gives an admitted request its hold, unless the layer settles it. Says whether the response
    /// needs it too: a request in flight shares its hold with the layer.
    fn hand_over(&self, request: &mut Req, admitted: &mut Self::Admitted) -> bool;

    /// Settles the hold of an admitted request, or lets the body keep it until its end, and adds
    /// the rate-limit fields to the response.
    fn finish(&self, answer: &mut Result<Svc::Response, Svc::Error>, admitted: Self::Admitted);

    /// An error of the inner service, as one of the limited service.
    fn inner_error(error: Svc::Error) -> Self::Error;
}

/// What comes next for a request.
pub enum Next<Layer: LayerFor<Svc, Req>, Svc: Service<Req> + Clone, Req> {
    /// The inner service is called; nothing was counted.
    Uncounted,
    /// The inner service is called.
    Admitted(Layer::Admitted),
    /// The inner service is called after this delay.
    Queued(Queued<Svc, Req, Layer>, Duration, WaitPermit),
    /// The request is answered in the inner service's place.
    Answered(Result<Svc::Response, Layer::Error>),
}

impl<Layer: LayerFor<Svc, Req>, Svc: Service<Req> + Clone, Req> Next<Layer, Svc, Req> {
    /// The request is answered, or passes uncounted where the limit is not enforced.
    pub(super) fn answered(answer: Option<Result<Svc::Response, Layer::Error>>) -> Self {
        answer.map_or(Self::Uncounted, Self::Answered)
    }
}

/// What was asked for a request that has to wait for its turn, and its admission.
pub(super) type Queued<Svc, Req, Layer> = (
    <Layer as LayerFor<Svc, Req>>::Query,
    Snapshot<<Layer as LayerFor<Svc, Req>>::Stored>,
);

/// The store's snapshot of an admission, or the decision of the limiter in the store's place.
pub(super) type Snapshot<Stored> = Result<Stored, Box<Decision>>;

/// What the store answers.
pub(super) type VerdictOf<Stored> = Result<Verdict<Stored>, StoreError>;
