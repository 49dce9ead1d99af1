//! The trait of a layer that fits a service: its service, future and waiting requests use it.

use std::{future::Future, time::Duration};

use tower_service::Service;

use crate::{
    error::StoreError,
    hold::Hold,
    key::Key,
    store::{Answer, Verdict},
};

use super::max_waiting::WaitPermit;

/// A layer whose algorithm, store, key and options fit this service and its requests.
///
/// Its one implementation, in `decide.rs`, has all the bounds. The service, its future and a
/// request that waits need only this trait.
#[doc(hidden)]
pub trait LayerFor<Svc: Service<Req>, Req> {
    /// Which limit was chosen for a request, and whether it is enforced.
    type Choice: Send + 'static;
    /// The key that a request is charged to.
    type Key: Key;
    /// The answer to a request that must have a key and has none.
    type Rejection;
    /// The store's snapshot of the bucket right after the decision.
    type Stored;
    /// The store's snapshot, or the decision of the limiter in the store's place.
    type Snapshot: Send + 'static;
    /// The future of a decision.
    type Deciding: Future<Output = Result<Verdict<Self::Stored>, StoreError>>;
    /// The error of the limited service.
    type Error;
    /// The time at which the store was asked, if that is measured.
    type Stopwatch: Send + 'static;

    /// Whether the layer keeps a request's hold, to settle it or end it with the response.
    const KEEPS_HOLD: bool;

    /// Finds the key of a request. Returns `None` if the request is not counted, and calls the
    /// observer then.
    ///
    /// # Errors
    ///
    /// The request must have a key and has none: it is [rejected](Self::reject).
    fn key_of(&self, request: &Req) -> Result<Option<Self::Key>, Self::Rejection>;

    /// Answers a request that must have a key and has none, and calls the observer. Returns `None`
    /// if the request goes on to the inner service, as no limit is enforced for it.
    fn reject(&self, request: &Req, rejection: Self::Rejection)
    -> Option<AnswerOf<Self, Svc, Req>>;

    /// Chooses the limit of a request with this key, and finds its cost.
    fn query_of(&self, request: &Req, key: Self::Key) -> QueryOf<Self, Svc, Req>;

    /// Asks the store to decide.
    fn ask_store(
        &self,
        query: &StoreQuery<Self::Choice, Self::Key, Self::Stopwatch>,
    ) -> Answer<Result<Verdict<Self::Stored>, StoreError>, Self::Deciding>;

    /// Whether a request that was admitted goes on to the inner service now.
    fn goes_at_once(
        &self,
        query: &StoreQuery<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: &Self::Stored,
    ) -> bool;

    /// Says what comes after the store's verdict, and calls the observer.
    fn after_verdict(
        &self,
        request: &Req,
        query: StoreQuery<Self::Choice, Self::Key, Self::Stopwatch>,
        verdict: Result<Verdict<Self::Stored>, StoreError>,
    ) -> NextOf<Self, Svc, Req>;

    /// Puts the decision into the extensions of an admitted request, if that is exposed, and its
    /// hold, unless the layer settles it. A request in flight shares its hold with the layer.
    fn expose(&self, request: &mut Req, admitted: &mut Admitted<Self::Choice, Self::Snapshot>);

    /// Whether anything is added to the response of this admitted request.
    fn annotates(&self, choice: &Self::Choice) -> bool;

    /// Settles the hold of an admitted request, or lets the body keep it until its end, and adds
    /// the rate-limit fields to the response.
    fn annotate(
        &self,
        response: &mut Svc::Response,
        admitted: &mut Admitted<Self::Choice, Self::Snapshot>,
    );

    /// Keeps the store's snapshot of an admission.
    fn stored(snapshot: Self::Stored) -> Self::Snapshot;

    /// An admitted request, with its hold if the limit is settled or counts requests in flight.
    fn with_hold(
        &self,
        query: StoreQuery<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: Self::Snapshot,
    ) -> Admitted<Self::Choice, Self::Snapshot>;

    /// The same for a request that goes on now; calls the observer first.
    fn observe_and_admit(
        &self,
        query: StoreQuery<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: Self::Snapshot,
    ) -> Admitted<Self::Choice, Self::Snapshot>;

    /// Gives back the turn of a request that was dropped while it waited.
    fn withdraw(
        &self,
        query: &StoreQuery<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: &Self::Snapshot,
    );

    /// An error of the inner service, as one of the limited service.
    fn inner_error(error: Svc::Error) -> Self::Error;
}

/// The limit that was chosen for a request, and whether it is enforced.
pub struct Chosen<Limit, Enforced> {
    pub(super) limit: Limit,
    pub(super) is_enforced: Enforced,
}

/// What the store is asked: whether this cost fits, for this key, under the chosen limit.
pub struct StoreQuery<Choice, Key, Stopwatch> {
    pub(super) choice: Choice,
    pub(super) key: Key,
    pub(super) cost: u32,
    pub(super) stopwatch: Stopwatch,
}

/// A request that was admitted under the chosen limit.
pub struct Admitted<Choice, Snapshot> {
    pub(super) choice: Choice,
    pub(super) snapshot: Snapshot,
    /// Its cost or its place in flight, if it holds one.
    pub(super) hold: Option<Hold>,
}

/// What comes next for a request.
pub enum Next<Choice, Key, Stopwatch, Snapshot, Answer> {
    /// The inner service is called; nothing was counted.
    Uncounted,
    /// The inner service is called.
    Admitted(Admitted<Choice, Snapshot>),
    /// The inner service is called after this delay.
    Queued(
        StoreQuery<Choice, Key, Stopwatch>,
        Snapshot,
        Duration,
        WaitPermit,
    ),
    /// The request is answered in the inner service's place.
    Answered(Answer),
}

/// What the store is asked, in the types of its layer.
pub(super) type QueryOf<L, Svc, Req> = StoreQuery<
    <L as LayerFor<Svc, Req>>::Choice,
    <L as LayerFor<Svc, Req>>::Key,
    <L as LayerFor<Svc, Req>>::Stopwatch,
>;

/// What the store answers, in the types of its layer.
pub(super) type VerdictOf<L, Svc, Req> =
    Result<Verdict<<L as LayerFor<Svc, Req>>::Stored>, StoreError>;

/// An answer in the inner service's place, in the types of its layer.
pub(super) type AnswerOf<L, Svc, Req> =
    Result<<Svc as Service<Req>>::Response, <L as LayerFor<Svc, Req>>::Error>;

/// What comes next for a request, in the types of its layer.
pub(super) type NextOf<L, Svc, Req> = Next<
    <L as LayerFor<Svc, Req>>::Choice,
    <L as LayerFor<Svc, Req>>::Key,
    <L as LayerFor<Svc, Req>>::Stopwatch,
    <L as LayerFor<Svc, Req>>::Snapshot,
    AnswerOf<L, Svc, Req>,
>;
