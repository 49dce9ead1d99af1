//! What a layer does with a request: it goes on to the inner service, is answered, or waits.

use std::{sync::Arc, time::Instant};

use tower_service::Service;

use crate::{
    algorithm::{Ending, Limit},
    choice::Choose,
    decision::Decision,
    error::StoreErrorKind,
    hold::{EndsWhen, Hold},
    key::{Key, Rejection},
    keyed::KeysFor,
    observe::{Event, EventKey, Outcome},
    response::{BodyEnd, Reason, Refusal, Respond},
    store::{Answer, Ask, Change, Source, Store},
    store_error::OnStoreError,
};

use super::{
    RateLimitLayer, ResponseFuture,
    layer_for::{LayerFor, Next, Snapshot, VerdictOf},
    options::Options,
    waiting::Wait,
};

impl<Svc, Req, A, S, F, R, O> LayerFor<Svc, Req> for RateLimitLayer<A, S, F, R, O>
where
    Svc: Service<Req> + Clone,
    A: Choose<Req>,
    F: KeysFor<<A::Limit as Limit>::Keys, Req>,
    S: Store<A::Limit, F::Key>,
    R: Respond<Req, Svc::Response, Svc::Error>,
    O: Options<Req, Svc::Response, F::Key>,
{
    type Query = StoreQuery<A::Choice, F::Key>;
    type Stored = <A::Limit as Limit>::Snapshot;
    type Admitted = Admitted<A::Choice, <A::Limit as Limit>::Snapshot>;
    type Deciding = S::Deciding;
    type Error = R::Error;

    #[inline]
    fn call(self: &Arc<Self>, inner: &mut Svc, request: Req) -> ResponseFuture<Svc, Req, Self> {
        // For speed, what is rare is a function of its own, which takes the request by value, and
        // no two branches share a result. A request that such a function borrows is copied before
        // the inner service gets it, and a key that is taken out of a shared result is written to
        // memory and read again five times. It gives a fifth of a layer without fields (bench
        // `layer`, "off").
        let options = &self.options;
        if options.is_exempt(&request) {
            options.observe(&Event::uncounted(Outcome::Exempt));
            return ResponseFuture::plain(inner.call(request));
        }
        let key = match self.key.find(&request) {
            Ok(Some(key)) => key,
            Ok(None) => {
                options.observe(&Event::uncounted(Outcome::NoKey));
                return ResponseFuture::plain(inner.call(request));
            }
            Err(rejection) => {
                return proceed(self, inner, request, |request| {
                    let refuses = options.is_enforced(request, None);
                    let rejection = rejection.into_response();
                    let refusal = Refusal::new(Reason::Rejected(&rejection));
                    let event = Event::uncounted(Outcome::Rejected);
                    Next::answered(self.turn_away(request, refusal, refuses, event))
                });
            }
        };
        let mut query = StoreQuery {
            choice: self.limiter.algorithm.choose(&request),
            is_enforced: options.is_enforced(&request, Some(&key)),
            cost: self.key.cost(&key, options.cost(&request)),
            key,
            started: options.times_store().then(Instant::now),
            source: None,
        };
        let limit = self.limiter.algorithm.limit(&query.choice);
        let ask = Ask::Charge(query.cost);
        match self.limiter.store.decide(limit, &query.key, ask) {
            Answer::Now(Ok(verdict))
                if verdict.admitted
                    && !self.exposes_decision
                    && (!query.is_enforced || limit.delay_of(&verdict.snapshot).is_zero()) =>
            {
                // An `Admitted` that is dropped at once would be copied first: a tenth of what a
                // layer without fields adds (bench `middleware`).
                if !holds::<A::Limit>()
                    && options.is_silent()
                    && !(self.respond.annotates() && query.is_enforced)
                {
                    options.mirror_charge(&request, &query.key, query.cost);
                    return ResponseFuture::plain(inner.call(request));
                }
                query.source = Some(verdict.source);
                let snapshot = Ok(verdict.snapshot);
                let notify = Some(&request);
                let admitted = LayerFor::<Svc, Req>::admit(&**self, query, snapshot, notify);
                ResponseFuture::admitted(self, inner, request, admitted)
            }
            Answer::Now(verdict) => proceed(self, inner, request, |request| {
                self.after_verdict(request, query, verdict)
            }),
            Answer::Later(deciding) => {
                let query = Some(query);
                let wait = Wait::Decision { query, deciding };
                ResponseFuture::waiting(self, inner, request, wait)
            }
        }
    }

    fn after_verdict(
        &self,
        request: &Req,
        mut query: Self::Query,
        verdict: VerdictOf<Self::Stored>,
    ) -> Next<Self, Svc, Req> {
        let limit = self.limiter.algorithm.limit(&query.choice);
        let (admitted, snapshot, delay) = match verdict {
            Ok(verdict) => {
                query.source = Some(verdict.source);
                let delay = limit.delay_of(&verdict.snapshot);
                (verdict.admitted, Ok(verdict.snapshot), delay)
            }
            Err(error) => {
                let instead = match error.kind() {
                    StoreErrorKind::Unavailable => self
                        .options
                        .decide_instead(&error, request, &query.key, query.cost),
                    _ => Err(OnStoreError::Refuse),
                };
                match instead {
                    Ok(decision) => {
                        let (admitted, delay) = (decision.is_admitted(), decision.delay());
                        (admitted, Err(decision), delay)
                    }
                    Err(choice) => {
                        let refuses = query.is_enforced && choice == OnStoreError::Refuse;
                        let event = Event {
                            error: Some(&error),
                            ..query.event(Outcome::StoreError)
                        };
                        let refusal = Refusal::new(Reason::StoreFailed(error.kind()));
                        return Next::answered(self.turn_away(request, refusal, refuses, event));
                    }
                }
            }
        };
        if !admitted {
            return match self.refuse(request, &query, decision_of(limit, &snapshot)) {
                Some(answer) => Next::Answered(answer),
                None => Next::Admitted(Admitted {
                    choice: query.choice,
                    is_enforced: false,
                    snapshot,
                    // Nothing was charged, so there is nothing to settle.
                    hold: None,
                }),
            };
        }
        if delay.is_zero() || !query.is_enforced {
            let notify = Some(request);
            let admitted = LayerFor::<Svc, Req>::admit(self, query, snapshot, notify);
            return Next::Admitted(admitted);
        }
        let Ok(permit) = Arc::clone(&self.max_waiting).try_acquire_owned() else {
            // The maximum of requests is waiting.
            LayerFor::<Svc, Req>::withdraw(self, &query, &snapshot);
            let decision = decision_of(limit, &snapshot).refused_for_its_delay();
            return Next::answered(self.refuse(request, &query, decision));
        };
        Next::Queued((query, snapshot), delay, permit)
    }

    #[inline]
    fn admit(
        &self,
        query: Self::Query,
        snapshot: Snapshot<Self::Stored>,
        notify: Option<&Req>,
    ) -> Self::Admitted {
        let hold = match &snapshot {
            Ok(admission) if holds::<A::Limit>() && query.cost > 0 => {
                let limit = self.limiter.algorithm.limit(&query.choice).clone();
                let (store, key) = (self.limiter.store.clone(), query.key.clone());
                let held = (admission.clone(), query.cost);
                Some(Hold::new(limit, store, key, held, EndsWhen::Dropped).into())
            }
            _ => None,
        };
        if let Some(request) = notify {
            // If it panics, what is held ends.
            LayerFor::<Svc, Req>::notify_admitted(self, request, &query, &snapshot);
        }
        Admitted {
            choice: query.choice,
            is_enforced: query.is_enforced,
            snapshot,
            hold,
        }
    }

    #[inline]
    fn notify_admitted(
        &self,
        request: &Req,
        query: &Self::Query,
        snapshot: &Snapshot<Self::Stored>,
    ) {
        if snapshot.is_ok() {
            self.options.mirror_charge(request, &query.key, query.cost);
        }
        if self.options.is_silent() {
            return;
        }
        let limit = self.limiter.algorithm.limit(&query.choice);
        let outcome = match snapshot {
            Ok(_) => Outcome::Admitted,
            Err(_) => Outcome::Degraded,
        };
        self.options.observe(&Event {
            decided: Some(&(limit, snapshot.as_ref().map_err(|decision| &**decision))),
            passes: true,
            ..query.event(outcome)
        });
    }

    fn withdraw(&self, query: &Self::Query, snapshot: &Snapshot<Self::Stored>) {
        if let Ok(admission) = snapshot {
            let limit = self.limiter.algorithm.limit(&query.choice);
            let ending = Ending::Withdrawn { cost: query.cost };
            let withdrawn = Change::End(admission, ending);
            drop(self.limiter.store.change(limit, &query.key, withdrawn));
        }
    }

    fn expose_decision(&self, request: &mut Req, admitted: &Self::Admitted) {
        if self.exposes_decision {
            let limit = self.limiter.algorithm.limit(&admitted.choice);
            let decision = decision_of(limit, &admitted.snapshot);
            self.respond.expose(request, decision);
        }
    }

    #[inline]
    fn hand_over(&self, request: &mut Req, admitted: &mut Self::Admitted) -> bool {
        const { something_is_to_be_settled::<A::Limit>(O::SETTLES) };
        let is_annotated = self.respond.annotates() && admitted.is_enforced;
        if !holds::<A::Limit>() {
            return is_annotated;
        }
        if let Some(end) = &mut admitted.hold {
            self.options.settle_at_end(end);
        }
        let in_flight = <A::Limit as Limit>::IN_FLIGHT;
        if (in_flight || !O::SETTLES)
            && let Some(end) = &admitted.hold
        {
            self.respond.hand_over(request, end.hold.clone());
        }
        if !in_flight && !O::SETTLES {
            // It is the request's alone.
            admitted.hold = None;
        }
        admitted.hold.is_some() || is_annotated
    }

    fn finish(&self, answer: &mut Result<Svc::Response, Svc::Error>, admitted: Self::Admitted) {
        let limit = self.limiter.algorithm.limit(&admitted.choice);
        let Ok(response) = answer else {
            if let Some(end) = admitted.hold {
                end.service_failed();
            }
            return;
        };
        let mut settled = None;
        if let Some(end) = admitted.hold {
            if let Some(spent) = self.options.spent(response) {
                settled = Some((end.hold.held(), spent));
                // Off the response's path: a store that hangs delays nothing.
                drop(end.hold.settle(spent));
            }
            if <A::Limit as Limit>::IN_FLIGHT || end.is_settled_at_end() {
                self.respond.keep_until_end(response, end);
            }
        }
        if self.respond.annotates() && admitted.is_enforced {
            let mut decision = decision_of(limit, &admitted.snapshot);
            if let Some((held, spent)) = settled {
                decision = decision.once_settled(held, spent);
            }
            decision.resolve();
            // Callers do not see limits in shadow.
            if !decision.policies().is_empty() {
                self.respond.annotate(&decision, response);
            }
        }
    }

    #[inline]
    fn inner_error(error: Svc::Error) -> R::Error {
        R::inner_error(error)
    }
}

/// Does what comes next for a request that is not admitted at once.
#[inline(never)]
fn proceed<Svc: Service<Req> + Clone, Req, Layer: LayerFor<Svc, Req>>(
    layer: &Arc<Layer>,
    inner: &mut Svc,
    request: Req,
    next: impl FnOnce(&Req) -> Next<Layer, Svc, Req>,
) -> ResponseFuture<Svc, Req, Layer> {
    let next = next(&request);
    ResponseFuture::next(layer, inner, request, next)
}

impl<A, S, F, R, O> RateLimitLayer<A, S, F, R, O> {
    /// Calls the observer; answers a request in the inner service's place, or lets it pass where
    /// the limit is not enforced.
    fn turn_away<Req, Res, Err, K>(
        &self,
        request: &Req,
        refusal: Refusal<'_>,
        refuses: bool,
        event: Event<'_, K>,
    ) -> Option<Result<Res, R::Error>>
    where
        R: Respond<Req, Res, Err>,
        O: Options<Req, Res, K>,
    {
        let passes = !refuses;
        self.options.observe(&Event { passes, ..event });
        refuses.then(|| self.respond.answer(request, refusal))
    }

    /// Turns away a request that is over its limit.
    #[cold]
    fn refuse<Req, Res, Err, K: Key>(
        &self,
        request: &Req,
        query: &StoreQuery<A::Choice, K>,
        mut decision: Decision,
    ) -> Option<Result<Res, R::Error>>
    where
        A: Choose<Req>,
        R: Respond<Req, Res, Err>,
        O: Options<Req, Res, K>,
    {
        decision.resolve();
        let limit = self.limiter.algorithm.limit(&query.choice);
        let outcome = match query.is_enforced {
            _ if decision.is_degraded() => Outcome::Degraded,
            true => Outcome::Refused,
            false => Outcome::ShadowRefused,
        };
        let decided = (limit, Err(&decision));
        let event = Event {
            decided: Some(&decided),
            ..query.event(outcome)
        };
        let refusal = Refusal::new(Reason::Limited(&decision));
        self.turn_away(request, refusal, query.is_enforced, event)
    }
}

/// What the store is asked: whether this cost fits, for this key, under the chosen limit.
pub struct StoreQuery<Choice, Key> {
    choice: Choice,
    key: Key,
    cost: u32,
    is_enforced: bool,
    /// When the store was asked, if that is measured.
    started: Option<Instant>,
    /// What it was decided by, once it was.
    source: Option<Source>,
}

impl<Choice, K> StoreQuery<Choice, K> {
    /// The event of a request that the store was asked about.
    #[inline]
    fn event(&self, outcome: Outcome) -> Event<'_, K> {
        Event {
            cost: self.cost,
            key: Some(EventKey::OfRequest(&self.key)),
            passes: false,
            store_time: self.started.map(|started| started.elapsed()),
            source: self.source,
            ..Event::uncounted(outcome)
        }
    }
}

/// A request that was admitted under the chosen limit.
pub struct Admitted<Choice, Stored> {
    choice: Choice,
    is_enforced: bool,
    snapshot: Snapshot<Stored>,
    /// Its cost or its place in flight, if it holds one.
    hold: Option<BodyEnd>,
}

/// Fails to compile where a layer settles what its limit has charged at once.
const fn something_is_to_be_settled<L: Limit>(settles: bool) {
    assert!(
        !settles || holds::<L>(),
        "`.settle(..)` and `.settle_at_end(..)` settle what is held: the algorithm must be `.settled()`"
    );
}

/// Whether an admitted request holds its cost or a place.
const fn holds<L: Limit>() -> bool {
    L::SETTLES || L::IN_FLIGHT
}

/// The decision about an admitted request.
#[inline]
fn decision_of<L: Limit>(limit: &L, snapshot: &Snapshot<L::Snapshot>) -> Decision {
    match snapshot {
        Ok(stored) => limit.decision_of(stored),
        Err(decision) => Decision::clone(decision),
    }
}
