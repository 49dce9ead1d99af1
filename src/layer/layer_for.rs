//! What a layer can do with a request of a service, for all that ask for it.

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
/// Its one implementation names what each of them must be able to do. The service, its future and
/// a request that waits ask for this trait and for nothing else.
#[doc(hidden)]
pub trait LayerFor<Svc: Service<Req>, Req> {
    /// Which limit was chosen for a request, and whether it is enforced.
    type Choice: Send + 'static;
    /// The key that a request is charged to.
    type Key: Key;
    /// The store's snapshot of the bucket right after the decision.
    type Stored;
    /// The same, or what was decided in the store's place.
    type Snapshot: Send + 'static;
    /// The future of a decision.
    type Deciding: Future<Output = Result<Verdict<Self::Stored>, StoreError>>;
    /// The error of the limited service.
    type Error;
    /// Since when the store decides, if that is measured.
    type Stopwatch: Send + 'static;

    /// Whether the layer keeps what a request holds, to settle it with the response or to end it
    /// with that.
    const KEEPS_HOLD: bool;

    /// Finds the key of a request, its cost and its limit; none if it is not counted, or the answer
    /// to a request that has no key. The observer is told of both.
    fn ask(&self, request: &Req) -> Result<AskedOf<Self, Svc, Req>, AnswerOf<Self, Svc, Req>>;

    /// Asks the store.
    fn decide(
        &self,
        asked: &Asked<Self::Choice, Self::Key, Self::Stopwatch>,
    ) -> Answer<Result<Verdict<Self::Stored>, StoreError>, Self::Deciding>;

    /// Whether a request that was admitted goes on to the inner service now.
    fn goes_at_once(
        &self,
        asked: &Asked<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: &Self::Stored,
    ) -> bool;

    /// Says what comes after the store's verdict, which the observer is told of.
    fn decided(
        &self,
        request: &Req,
        asked: Asked<Self::Choice, Self::Key, Self::Stopwatch>,
        verdict: Result<Verdict<Self::Stored>, StoreError>,
    ) -> NextOf<Self, Svc, Req>;

    /// Shows the decision to an admitted request, if that was asked for, and gives it its hold,
    /// unless the layer settles that. Of a request that is in flight both have one.
    fn expose(&self, request: &mut Req, admitted: &mut Admitted<Self::Choice, Self::Snapshot>);

    /// Whether anything is added to the response of this admitted request.
    fn annotates(&self, choice: &Self::Choice) -> bool;

    /// Settles the hold of an admitted request, or has its body keep it until its end, and adds the
    /// rate-limit fields to its response.
    fn annotate(
        &self,
        response: &mut Svc::Response,
        admitted: &mut Admitted<Self::Choice, Self::Snapshot>,
    );

    /// Keeps the store's snapshot of an admission.
    fn stored(snapshot: Self::Stored) -> Self::Snapshot;

    /// An admission; its cost is held if its limit settles, and its place if it counts what is in
    /// flight.
    fn admission(
        &self,
        asked: Asked<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: Self::Snapshot,
    ) -> Admitted<Self::Choice, Self::Snapshot>;

    /// The same for a request that goes on now, which its observer is told of.
    fn admit(
        &self,
        asked: Asked<Self::Choice, Self::Key, Self::Stopwatch>,
        snapshot: Self::Snapshot,
    ) -> Admitted<Self::Choice, Self::Snapshot>;

    /// Gives back the slot of a request that was dropped before its turn in the queue.
    fn withdraw(
        &self,
        asked: &Asked<Self::Choice, Self::Key, Self::Stopwatch>,
        admission: &Self::Snapshot,
    );

    /// An error of the inner service, as one of the limited service.
    fn inner_error(error: Svc::Error) -> Self::Error;
}

/// What was chosen for a request: its limit, and whether that is enforced.
pub struct Chosen<Limit, Enforced> {
    pub(super) limit: Limit,
    pub(super) is_enforced: Enforced,
}

/// What the store was asked: whether this cost fits, for this key, under the limit that was chosen.
pub struct Asked<Choice, Key, Stopwatch> {
    pub(super) choice: Choice,
    pub(super) key: Key,
    pub(super) cost: u32,
    pub(super) stopwatch: Stopwatch,
}

/// A request that was admitted, under the limit that was chosen.
pub struct Admitted<Choice, Snapshot> {
    pub(super) choice: Choice,
    pub(super) snapshot: Snapshot,
    /// Its cost, if that is held.
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
        Asked<Choice, Key, Stopwatch>,
        Snapshot,
        Duration,
        WaitPermit,
    ),
    /// The request is answered in the inner service's place.
    Answered(Answer),
}

/// What the store is asked about a request that is counted, in the types of its layer.
pub(super) type AskedOf<L, Svc, Req> = Option<AskedBy<L, Svc, Req>>;

/// The same of a request that is counted.
pub(super) type AskedBy<L, Svc, Req> = Asked<
    <L as LayerFor<Svc, Req>>::Choice,
    <L as LayerFor<Svc, Req>>::Key,
    <L as LayerFor<Svc, Req>>::Stopwatch,
>;

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
