//! What a layer does with a request: it goes on to the inner service, is answered, or waits.

use std::panic::resume_unwind;

use tower_service::Service;

use crate::{
    algorithm::Limit,
    choice::Choose,
    cost::Cost,
    decision::Decision,
    enforce::Enforce,
    exempt::Exempt,
    hold::{EndsWhen, Hold},
    key::Key,
    keyed::KeysFor,
    observe::{Event, Outcome, Watch},
    response::{Reason, Refusal, Respond},
    store::{Answer, Ask, Change, Store, Verdict},
};

use super::{
    Expose, Fallback, Options, RateLimitLayer, Settle,
    fallback::FallbackOutcome,
    layer_for::{AnswerOf, LayerFor, Next, NextOf, VerdictOf},
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
    W: Watch<F::Key>,
{
    type Key = F::Key;
    type Rejection = F::Rejection;
    type Query = StoreQuery<Chosen<A::Choice, N::Answer>, F::Key, W::Stopwatch>;
    type Stored = <A::Limit as Limit>::Snapshot;
    type Snapshot = E::Snapshot<<A::Limit as Limit>::Snapshot>;
    type Admitted = Admitted<Chosen<A::Choice, N::Answer>, Self::Snapshot>;
    type Deciding = S::Deciding;
    type Error = R::Error;

    #[inline]
    fn key_of(&self, request: &Req) -> Result<Option<F::Key>, F::Rejection> {
        let options = &self.options;
        if options.exempt.is_exempt(request) {
            options.observe.tell(&Event::uncounted(Outcome::Exempt));
            return Ok(None);
        }
        match self.key.find(request) {
            Ok(None) => {
                options.observe.tell(&Event::uncounted(Outcome::NoKey));
                Ok(None)
            }
            found => found,
        }
    }

    #[cold]
    fn reject(&self, request: &Req, rejection: F::Rejection) -> Option<AnswerOf<Self, Svc, Req>> {
        let options = &self.options;
        let is_enforced = options.enforce.is_enforced(request, None).into();
        options.observe.tell(&Event::rejected(is_enforced));
        is_enforced.then(|| options.reject(request, rejection))
    }

    #[inline]
    fn query_of(&self, request: &Req, key: F::Key) -> Self::Query {
        let (options, algorithm) = (&self.options, self.limiter.algorithm());
        let cost = self.key.cost(&key, options.cost.cost(request));
        let choice = Chosen {
            limit: algorithm.choose(request),
            is_enforced: options.enforce.is_enforced(request, Some(&key)),
        };
        let stopwatch = options.observe.start();
        StoreQuery {
            choice,
            key,
            cost,
            stopwatch,
        }
    }

    #[inline]
    fn ask_store(&self, query: &Self::Query) -> Answer<VerdictOf<Self, Svc, Req>, S::Deciding> {
        let limit = self.limiter.algorithm().limit(&query.choice.limit);
        let ask = Ask::Charge(query.cost);
        self.limiter.store().decide(limit, &query.key, ask)
    }

    #[inline]
    fn goes_at_once(&self, query: &Self::Query, snapshot: &Self::Stored) -> bool {
        if E::MIRRORS_CHARGES {
            return false;
        }
        let limit = self.limiter.algorithm().limit(&query.choice.limit);
        !query.choice.is_enforced.into() || limit.delay_of(snapshot).is_zero()
    }

    #[inline]
    fn stored(snapshot: Self::Stored) -> Self::Snapshot {
        E::stored(snapshot)
    }

    #[inline]
    fn observe_and_admit(&self, query: Self::Query, snapshot: Self::Snapshot) -> Self::Admitted {
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
        verdict: VerdictOf<Self, Svc, Req>,
    ) -> NextOf<Self, Svc, Req> {
        let limit = self.limiter.algorithm().limit(&query.choice.limit);
        let is_enforced: bool = query.choice.is_enforced.into();
        let (snapshot, delay) = match verdict {
            Ok(Verdict {
                admitted: true,
                snapshot,
            }) => {
                let fallback = &self.options.on_store_error;
                fallback.mirror_charge(request, &query.key, query.cost);
                let delay = limit.delay_of(&snapshot);
                (E::stored(snapshot), delay)
            }
            Ok(refused) => {
                let decision = limit.decision_of(&refused.snapshot);
                let told = match is_enforced {
                    true => (Outcome::Refused, false),
                    false => (Outcome::ShadowRefused, true),
                };
                self.tell_refused(&query, told, &|| decision.clone());
                if is_enforced {
                    return Next::Answered(self.options.refuse(request, &query.key, decision));
                }
                self.options.would_refuse(decision);
                return Next::Admitted(Admitted {
                    choice: query.choice,
                    snapshot: E::stored(refused.snapshot),
                    // Nothing was charged, so there is nothing to settle.
                    hold: None,
                });
            }
            Err(error) => {
                let fallback = &self.options.on_store_error;
                match fallback.decide_instead(&error, request, (&query.key, query.cost)) {
                    FallbackOutcome::Admitted(snapshot, delay) => (snapshot, delay),
                    FallbackOutcome::Failed if is_enforced => {
                        self.tell_error(&query, &error, false);
                        let refusal = Refusal::new(Reason::StoreFailed(error.kind()));
                        return Next::Answered(self.options.respond.answer(request, refusal));
                    }
                    FallbackOutcome::Uncounted | FallbackOutcome::Failed => {
                        self.tell_error(&query, &error, true);
                        return Next::Uncounted;
                    }
                    FallbackOutcome::Refused(decision) => {
                        self.tell_refused(&query, (Outcome::Degraded, !is_enforced), &|| {
                            decision.clone()
                        });
                        if is_enforced {
                            return Next::Answered(
                                self.options.refuse(request, &query.key, decision),
                            );
                        }
                        self.options.would_refuse(decision);
                        return Next::Uncounted;
                    }
                }
            }
        };
        if delay.is_zero() || !is_enforced {
            return Next::Admitted(LayerFor::<Svc, Req>::observe_and_admit(
                self, query, snapshot,
            ));
        }
        if let Some(permit) = self.options.max_waiting.permit() {
            if let Err(panic) = self.tell_admitted::<Req, _, _>(&query, &snapshot) {
                LayerFor::<Svc, Req>::withdraw(self, &query, &snapshot);
                resume_unwind(panic);
            }
            return Next::Queued(query, snapshot, delay, permit);
        }
        // The maximum of requests is waiting.
        LayerFor::<Svc, Req>::withdraw(self, &query, &snapshot);
        let fallback = &self.options.on_store_error;
        let decision = decision_of::<_, E, Req, F::Key>(limit, fallback, &snapshot);
        let decision = decision.refused_for_its_delay();
        let outcome = match decision.is_degraded() {
            true => Outcome::Degraded,
            false => Outcome::Refused,
        };
        self.tell_refused(&query, (outcome, false), &|| decision.clone());
        Next::Answered(self.options.refuse(request, &query.key, decision))
    }

    #[inline]
    fn admit(&self, query: Self::Query, snapshot: Self::Snapshot) -> Self::Admitted {
        let is_held = <A::Limit as Limit>::SETTLES || <A::Limit as Limit>::IN_FLIGHT;
        let hold = match E::read(&snapshot) {
            Ok(stored) if is_held && query.cost > 0 => {
                let limit = self.limiter.algorithm().limit(&query.choice.limit).clone();
                let store = self.limiter.store().clone();
                let held = (stored.clone(), query.cost);
                Some(Hold::new(limit, store, query.key, held, EndsWhen::Dropped))
            }
            _ => None,
        };
        Admitted {
            choice: query.choice,
            snapshot,
            hold,
        }
    }

    /// If the algorithm can. A turn from the limiter in the store's place is lost.
    fn withdraw(&self, query: &Self::Query, snapshot: &Self::Snapshot) {
        if let Ok(admission) = E::read(snapshot) {
            let limit = self.limiter.algorithm().limit(&query.choice.limit);
            let cost = query.cost;
            let withdrawn = Change::Withdraw { admission, cost };
            drop(self.limiter.store().change(limit, &query.key, withdrawn));
        }
    }

    #[inline]
    fn expose(&self, request: &mut Req, admitted: &mut Self::Admitted) -> bool {
        let limit = self.limiter.algorithm().limit(&admitted.choice.limit);
        let fallback = &self.options.on_store_error;
        let decision = || decision_of::<_, E, Req, F::Key>(limit, fallback, &admitted.snapshot);
        self.options.expose.expose(request, decision);
        let (settles, in_flight) = (<A::Limit as Limit>::SETTLES, <A::Limit as Limit>::IN_FLIGHT);
        if in_flight {
            if let Some(hold) = &admitted.hold {
                self.options.respond.hand_over(request, hold.clone());
            }
        } else if settles
            && !Z::IS_ASKED
            && let Some(hold) = admitted.hold.take()
        {
            self.options.respond.hand_over(request, hold);
        }
        let has_hold = (settles || in_flight) && admitted.hold.is_some();
        let annotates = self.options.respond.annotates() && admitted.choice.is_enforced.into();
        has_hold || annotates
    }

    fn annotate(&self, response: &mut Svc::Response, mut admitted: Self::Admitted) {
        let limit = self.limiter.algorithm().limit(&admitted.choice.limit);
        if let Some(hold) = admitted.hold.take() {
            if Z::IS_ASKED {
                let spent = self.options.settle.spent(response);
                let freed = hold.held().saturating_sub(spent);
                if let Ok(stored) = E::read(&admitted.snapshot) {
                    admitted.snapshot = E::stored(limit.freed(stored, freed));
                }
                // Off the response's path: a store that hangs delays nothing.
                drop(hold.settle(spent));
            }
            if <A::Limit as Limit>::IN_FLIGHT {
                self.options.respond.keep_until_end(response, hold);
            }
        }
        if self.options.respond.annotates() && admitted.choice.is_enforced.into() {
            let fallback = &self.options.on_store_error;
            let mut decision =
                decision_of::<_, E, Req, F::Key>(limit, fallback, &admitted.snapshot);
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

/// The limit that was chosen for a request, and whether it is enforced.
pub struct Chosen<Limit, Enforced> {
    pub(super) limit: Limit,
    is_enforced: Enforced,
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
    choice: Choice,
    snapshot: Snapshot,
    /// Its cost or its place in flight, if it holds one.
    hold: Option<Hold>,
}

/// The decision about an admitted request.
#[inline]
pub(super) fn decision_of<L: Limit, E: Fallback<Req, K>, Req, K: Key>(
    limit: &L,
    fallback: &E,
    snapshot: &E::Snapshot<L::Snapshot>,
) -> Decision {
    match E::read(snapshot) {
        Ok(stored) => limit.decision_of(stored),
        Err(decided) => fallback.decision(decided),
    }
}
