//! What a layer does with a request: it goes on to the inner service, is answered, or waits.

use std::{panic::resume_unwind, time::Instant};

use tower_service::Service;

use crate::{
    algorithm::Limit,
    choice::Choose,
    cost::Cost,
    decision::Decision,
    enforce::Enforce,
    exempt::Exempt,
    hold::{EndsWhen, Hold},
    key::{Key, Rejection},
    keyed::KeysFor,
    observe::{Event, Observe, Outcome},
    response::{BodyEnd, Reason, Refusal, Respond},
    store::{Answer, Ask, Change, Store, Verdict},
};

use super::{
    Expose, Fallback, Options, RateLimitLayer, Settle,
    fallback::FallbackOutcome,
    layer_for::{LayerFor, Next, Snapshot, VerdictOf},
    warnings::{warn_of_bursts_of_zero, warn_of_rehearsal},
};

impl<Svc, Req, A, S, F, C, R, X, E, D, Z, N, W> LayerFor<Svc, Req>
    for RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N, W>>
where
    Svc: Service<Req>,
    A: Choose<Req>,
    F: KeysFor<<A::Limit as Limit>::Keys, Req>,
    S: Store<A::Limit, F::Key>,
    C: Cost<Req>,
    R: Respond<Req, Svc::Response, Svc::Error>,
    X: Exempt<Req>,
    E: Fallback<Req, F::Key>,
    D: Expose<Req>,
    Z: Settle<Svc::Response>,
    N: Enforce<Req, F::Key>,
    W: Observe<F::Key>,
{
    type Key = F::Key;
    type Rejection = F::Rejection;
    type Query = StoreQuery<A::Choice, F::Key>;
    type Stored = <A::Limit as Limit>::Snapshot;
    type Admitted = Admitted<A::Choice, <A::Limit as Limit>::Snapshot>;
    type Deciding = S::Deciding;
    type Error = R::Error;

    #[inline]
    fn key_of(&self, request: &Req) -> Result<Option<F::Key>, F::Rejection> {
        let options = &self.options;
        if options.exempt.is_exempt(request) {
            options.observe.observe(&Event::uncounted(Outcome::Exempt));
            return Ok(None);
        }
        match self.key.find(request) {
            Ok(None) => {
                options.observe.observe(&Event::uncounted(Outcome::NoKey));
                Ok(None)
            }
            found => found,
        }
    }

    #[cold]
    fn reject(&self, request: &Req, rejection: F::Rejection) -> Next<Self, Svc, Req> {
        let options = &self.options;
        let is_enforced = options.enforce.is_enforced(request, None);
        options.observe.observe(&Event {
            passes: !is_enforced,
            ..Event::uncounted(Outcome::Rejected)
        });
        if !is_enforced {
            return Next::Uncounted;
        }
        let rejection = rejection.into_response();
        let refusal = Refusal::new(Reason::Rejected(&rejection));
        Next::Answered(options.respond.answer(request, refusal))
    }

    #[inline]
    fn query_of(&self, request: &Req, key: F::Key) -> Self::Query {
        let options = &self.options;
        let cost = self.key.cost(&key, options.cost.cost(request));
        StoreQuery {
            choice: self.limiter.algorithm().choose(request),
            is_enforced: options.enforce.is_enforced(request, Some(&key)),
            key,
            cost,
            started: options.observe.start(),
        }
    }

    #[inline]
    fn ask_store(&self, query: &Self::Query) -> Answer<VerdictOf<Self::Stored>, S::Deciding> {
        let limit = self.limiter.algorithm().limit(&query.choice);
        let ask = Ask::Charge(query.cost);
        self.limiter.store().decide(limit, &query.key, ask)
    }

    #[inline]
    fn goes_at_once(&self, query: &Self::Query, snapshot: &Self::Stored) -> bool {
        if E::MIRRORS_CHARGES {
            return false;
        }
        let limit = self.limiter.algorithm().limit(&query.choice);
        !query.is_enforced || limit.delay_of(snapshot).is_zero()
    }

    #[inline]
    fn observe_and_admit(
        &self,
        query: Self::Query,
        snapshot: Snapshot<Self::Stored>,
    ) -> Self::Admitted {
        let told = self.tell_admitted(&query, &snapshot);
        let admitted = LayerFor::<Svc, Req>::admit(self, query, snapshot);
        if let Err(panic) = told {
            drop(admitted);
            resume_unwind(panic);
        }
        admitted
    }

    fn after_verdict(
        &self,
        request: &Req,
        query: Self::Query,
        verdict: VerdictOf<Self::Stored>,
    ) -> Next<Self, Svc, Req> {
        let limit = self.limiter.algorithm().limit(&query.choice);
        let fallback = &self.options.on_store_error;
        let (snapshot, delay) = match verdict {
            Ok(Verdict {
                admitted: true,
                snapshot,
            }) => {
                fallback.mirror_charge(request, &query.key, query.cost);
                let delay = limit.delay_of(&snapshot);
                (Ok(snapshot), delay)
            }
            Ok(refused) => {
                let decision = limit.decision_of(&refused.snapshot);
                return match self.refuse(request, &query, decision) {
                    Some(answer) => Next::Answered(answer),
                    None => Next::Admitted(Admitted {
                        choice: query.choice,
                        is_enforced: false,
                        snapshot: Ok(refused.snapshot),
                        // Nothing was charged, so there is nothing to settle.
                        hold: None,
                    }),
                };
            }
            Err(error) => match fallback.decide_instead(&error, request, &query.key, query.cost) {
                FallbackOutcome::Decided(decision, delay) if decision.is_admitted() => {
                    (Err(decision), delay)
                }
                FallbackOutcome::Decided(decision, _) => {
                    let answer = self.refuse(request, &query, *decision);
                    return answer.map_or(Next::Uncounted, Next::Answered);
                }
                instead => {
                    let passes = matches!(instead, FallbackOutcome::Pass) || !query.is_enforced;
                    self.options.observe.observe(&Event {
                        error: Some(&error),
                        passes,
                        ..query.event(Outcome::StoreError)
                    });
                    if passes {
                        return Next::Uncounted;
                    }
                    let refusal = Refusal::new(Reason::StoreFailed(error.kind()));
                    return Next::Answered(self.options.respond.answer(request, refusal));
                }
            },
        };
        if delay.is_zero() || !query.is_enforced {
            return Next::Admitted(LayerFor::<Svc, Req>::observe_and_admit(
                self, query, snapshot,
            ));
        }
        if let Some(permit) = self.options.max_waiting.permit() {
            if let Err(panic) = self.tell_admitted(&query, &snapshot) {
                LayerFor::<Svc, Req>::withdraw(self, &query, &snapshot);
                resume_unwind(panic);
            }
            return Next::Queued(query, snapshot, delay, permit);
        }
        // The maximum of requests is waiting.
        LayerFor::<Svc, Req>::withdraw(self, &query, &snapshot);
        let decision = decision_of(limit, &snapshot).refused_for_its_delay();
        let answer = self.refuse(request, &query, decision);
        answer.map_or(Next::Uncounted, Next::Answered)
    }

    #[inline]
    fn admit(&self, query: Self::Query, snapshot: Snapshot<Self::Stored>) -> Self::Admitted {
        let is_held = <A::Limit as Limit>::SETTLES || <A::Limit as Limit>::IN_FLIGHT;
        let hold = match &snapshot {
            Ok(stored) if is_held && query.cost > 0 => {
                let limit = self.limiter.algorithm().limit(&query.choice).clone();
                let store = self.limiter.store().clone();
                let held = (stored.clone(), query.cost);
                let hold = Hold::new(limit, store, query.key, held, EndsWhen::Dropped);
                Some(BodyEnd::new(hold, self.options.settle.spent_at_end()))
            }
            _ => None,
        };
        Admitted {
            choice: query.choice,
            is_enforced: query.is_enforced,
            snapshot,
            hold,
        }
    }

    /// If the algorithm can. A turn from the limiter in the store's place is lost.
    fn withdraw(&self, query: &Self::Query, snapshot: &Snapshot<Self::Stored>) {
        if let Ok(admission) = snapshot {
            let limit = self.limiter.algorithm().limit(&query.choice);
            let cost = query.cost;
            let withdrawn = Change::Withdraw { admission, cost };
            drop(self.limiter.store().change(limit, &query.key, withdrawn));
        }
    }

    #[inline]
    fn expose(&self, request: &mut Req, admitted: &mut Self::Admitted) -> bool {
        let limit = self.limiter.algorithm().limit(&admitted.choice);
        let decision = || decision_of(limit, &admitted.snapshot);
        self.options.expose.expose(request, decision);
        let in_flight = <A::Limit as Limit>::IN_FLIGHT;
        if (in_flight || !Z::BY_LAYER)
            && let Some(end) = &admitted.hold
        {
            self.options.respond.hand_over(request, end.hold().clone());
        }
        if !in_flight && !Z::BY_LAYER {
            // It is the request's alone.
            admitted.hold = None;
        }
        admitted.hold.is_some() || self.options.respond.annotates() && admitted.is_enforced
    }

    fn finish(&self, answer: &mut Result<Svc::Response, Svc::Error>, mut admitted: Self::Admitted) {
        let limit = self.limiter.algorithm().limit(&admitted.choice);
        let Ok(response) = answer else {
            if let Some(end) = admitted.hold {
                end.service_failed();
            }
            return;
        };
        if let Some(end) = admitted.hold {
            if let Some(spent) = self.options.settle.spent(response) {
                let freed = end.hold().held().saturating_sub(spent);
                admitted.snapshot = admitted.snapshot.map(|stored| limit.freed(&stored, freed));
                // Off the response's path: a store that hangs delays nothing.
                drop(end.hold().settle(spent));
            }
            if <A::Limit as Limit>::IN_FLIGHT || self.options.settle.spent_at_end().is_some() {
                self.options.respond.keep_until_end(response, end);
            }
        }
        if self.options.respond.annotates() && admitted.is_enforced {
            let mut decision = decision_of(limit, &admitted.snapshot);
            decision.resolve();
            // Callers do not see limits in shadow.
            if !<A::Limit as Limit>::HAS_SHADOWS || !decision.policies().is_empty() {
                self.options.respond.annotate(&decision, response);
            }
        }
    }

    #[inline]
    fn inner_error(error: Svc::Error) -> R::Error {
        R::inner_error(error)
    }
}

impl<A, S, F, C, R, X, E, D, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N, W>> {
    /// Answers a request that was refused, and calls the observer; `None` if the limit is not
    /// enforced.
    #[cold]
    fn refuse<Req, Res, Err, Choice, K>(
        &self,
        request: &Req,
        query: &StoreQuery<Choice, K>,
        mut decision: Decision,
    ) -> Option<Result<Res, R::Error>>
    where
        K: Key,
        R: Respond<Req, Res, Err>,
        W: Observe<K>,
    {
        decision.resolve();
        let outcome = match query.is_enforced {
            _ if decision.is_degraded() => Outcome::Degraded,
            true => Outcome::Refused,
            false => Outcome::ShadowRefused,
        };
        self.options.observe.observe(&Event {
            decision: Some(&|| decision.clone()),
            passes: !query.is_enforced,
            ..query.event(outcome)
        });
        warn_of_bursts_of_zero(&decision);
        if !query.is_enforced {
            warn_of_rehearsal(&decision);
            return None;
        }
        let refusal = Refusal::new(Reason::Limited(&decision)).with_key(&query.key);
        Some(self.options.respond.answer(request, refusal))
    }
}

/// What the store is asked: whether this cost fits, for this key, under the chosen limit.
pub struct StoreQuery<Choice, Key> {
    pub(super) choice: Choice,
    key: Key,
    cost: u32,
    is_enforced: bool,
    /// When the store was asked, if that is measured.
    started: Option<Instant>,
}

impl<Choice, K> StoreQuery<Choice, K> {
    /// The event of a request that the store was asked about.
    #[inline]
    pub(super) fn event(&self, outcome: Outcome) -> Event<'_, K> {
        Event {
            cost: self.cost,
            key: Some(&self.key),
            passes: false,
            store_time: self.started.map(|started| started.elapsed()),
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

/// The decision about an admitted request.
#[inline]
pub(super) fn decision_of<L: Limit>(limit: &L, snapshot: &Snapshot<L::Snapshot>) -> Decision {
    match snapshot {
        Ok(stored) => limit.decision_of(stored),
        Err(decision) => Decision::clone(decision),
    }
}
