//! The service: decides, then calls the inner service or answers in its place.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tower_service::Service;

use crate::{
    choice::{Choice, Choose},
    cost::Cost,
    decision::{Decision, PolicyDecision},
    error::StoreError,
    exempt::Exempt,
    key::Rejection,
    keyed::Keyed,
    limit::Limit,
    response::Respond,
    store::{Answer, LocalStore, Store},
    store_error::{self, HandleStoreError},
    told_once::ToldOnce,
};

use super::{Expose, InnerService, Options, ResponseFuture, Settings, waiting::Held};

/// Lets a request through to the inner service, or answers it in its place; made by a
/// [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is ready when the inner service is, and charges nothing for that: the decision is made in
/// `call`, once per request, and the inner service is called only after it. A request that is
/// refused never reaches the inner service, and what that had reserved to be ready is let go.
/// Dropping a response does not give units back.
///
/// # When it is no service
///
/// axum, tonic and every function that asks for a service make the compiler say what is missing: a
/// key for this type of request, a store for this algorithm, a body that a refusal can be written
/// in. Where a *method* is called on it, the compiler says no more than that `ready` or `oneshot`
/// "exists, but its trait bounds were not satisfied". Write `tower::ServiceExt::oneshot(service,
/// request)` in its place to be told which.
pub struct RateLimit<Svc, Algo, Store, KeyFn, Opts = Options> {
    inner: Svc,
    settings: Arc<Settings<Algo, Store, KeyFn, Opts>>,
}

/// A service with a [`LocalStore`], whose type would name the algorithm twice.
pub type LocalRateLimit<Svc, Algo, Key, KeyFn, Opts = Options> =
    RateLimit<Svc, Algo, LocalStore<Algo, Key>, KeyFn, Opts>;

impl<Svc, A, S, F, O> RateLimit<Svc, A, S, F, O> {
    pub(crate) fn new(inner: Svc, settings: Arc<Settings<A, S, F, O>>) -> Self {
        Self { inner, settings }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &Svc {
        &self.inner
    }

    /// The inner service. What is called on it directly is not counted.
    pub fn get_mut(&mut self) -> &mut Svc {
        &mut self.inner
    }

    /// The inner service, without the limit.
    pub fn into_inner(self) -> Svc {
        self.inner
    }
}

impl<Svc: Clone, A, S, F, O> Clone for RateLimit<Svc, A, S, F, O> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            settings: Arc::clone(&self.settings),
        }
    }
}

impl<Svc: fmt::Debug, A, S, F, O> fmt::Debug for RateLimit<Svc, A, S, F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<Svc, Req, A, S, F, C, R, X, E, D> Service<Req>
    for RateLimit<Svc, A, S, F, Options<C, R, X, E, D>>
where
    Svc: Service<Req> + InnerService,
    A: Choose<Req>,
    A::Limit: Keyed<F, Req>,
    S: Store<A::Limit, <A::Limit as Keyed<F, Req>>::Key>,
    C: Cost<Req>,
    R: Respond<Req, Svc::Response, Svc::Error>,
    X: Exempt<Req>,
    E: HandleStoreError,
    D: Expose<Req>,
{
    type Response = Svc::Response;
    type Error = R::Error;
    type Future = ResponseFuture<
        Svc::Future,
        Svc::Response,
        R::Error,
        Annotation<A, S, F, Options<C, R, X, E, D>>,
        Held<Svc, Req, A, S, F, Options<C, R, X, E, D>, <A::Limit as Keyed<F, Req>>::Key>,
    >;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(R::inner_error)
    }

    #[inline]
    fn call(&mut self, mut request: Req) -> Self::Future {
        let settings = &*self.settings;
        let options = &settings.options;
        if options.exempt.is_exempt(&request) {
            return ResponseFuture::inner(self.inner.call(request), None);
        }
        // The key stays where it was extracted: it is not moved about on the way of most requests.
        let extracted = A::Limit::extract(&settings.key, &request);
        let key = match extracted {
            Ok(Some(ref key)) => key,
            Ok(None) => return ResponseFuture::inner(self.inner.call(request), None),
            Err(rejection) => {
                let answer = reject(settings, &request, rejection);
                return self.answer(answer);
            }
        };
        let cost = options.cost.cost(&request);
        let limit = settings.limiter.choice().choose(&request);
        match settings.limiter.decide(&limit, key, cost) {
            Answer::Now(Ok(verdict)) if verdict.admitted => {
                let delay = limit.delay_of(&verdict.snapshot);
                if delay.is_zero() {
                    let (admission, annotates) = (&verdict.snapshot, options.respond.annotates());
                    expose(settings, &*limit, &mut request, admission);
                    let note = |kept| Annotation::of(&self.settings, kept, admission);
                    let note = annotates.then(|| note(A::keep(limit)));
                    return ResponseFuture::inner(self.inner.call(request), note);
                }
                let (kept, key) = (A::keep(limit), key.clone());
                let turn = (verdict.snapshot, delay);
                let (service, settings) = (self.take_ready(), Arc::clone(&self.settings));
                let held =
                    Held::until_its_turn(settings, service, request, (kept, key, cost), turn);
                ResponseFuture::held(held)
            }
            Answer::Now(Ok(verdict)) => {
                let answer = refuse(settings, &*limit, &request, &verdict.snapshot);
                drop(limit);
                self.answer(answer)
            }
            Answer::Now(Err(error)) => {
                drop(limit);
                match undecided(settings, &request, &error) {
                    Some(answer) => self.answer(answer),
                    None => ResponseFuture::inner(self.inner.call(request), None),
                }
            }
            Answer::Later(deciding) => {
                let (kept, key) = (A::keep(limit), key.clone());
                let (service, settings) = (self.take_ready(), Arc::clone(&self.settings));
                let held =
                    Held::until_decided(settings, service, request, (kept, key, cost), deciding);
                ResponseFuture::held(held)
            }
        }
    }
}

impl<Svc: Clone, A, S, F, O> RateLimit<Svc, A, S, F, O> {
    /// Answers in the place of the inner service, which lets go of what it had reserved to be ready
    /// (a permit of a concurrency limit, say): nobody knows when this one is called again.
    #[cold]
    fn answer<Fut, Res, Err, Note, Wait>(
        &mut self,
        answer: Result<Res, Err>,
    ) -> ResponseFuture<Fut, Res, Err, Note, Wait> {
        drop(self.take_ready());
        ResponseFuture::answer(answer)
    }

    /// The service that was made ready, to go with a request; a clone takes its place.
    fn take_ready(&mut self) -> Svc {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

/// What the response of an admitted request is to be told: kept small, as every future has room for
/// it.
pub struct Annotation<A: Choice, S, F, O> {
    settings: Arc<Settings<A, S, F, O>>,
    kept: A::Kept,
    admission: <A::Limit as Limit>::Snapshot,
}

impl<A: Choice, S, F, O> Annotation<A, S, F, O> {
    #[inline]
    pub(crate) fn of(
        settings: &Arc<Settings<A, S, F, O>>,
        kept: A::Kept,
        admission: &<A::Limit as Limit>::Snapshot,
    ) -> Self {
        Self {
            settings: Arc::clone(settings),
            kept,
            admission: admission.clone(),
        }
    }
}

impl<A: Choice, S, F, C, R, X, E, D> Annotation<A, S, F, Options<C, R, X, E, D>> {
    /// Polls the inner future, and writes the note on its response, which stays where it was
    /// written first.
    #[inline(always)]
    pub(crate) fn poll_inner<Req, Res, Err, Fut>(
        note: &mut Option<Self>,
        future: Pin<&mut Fut>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Res, R::Error>>
    where
        Fut: Future<Output = Result<Res, Err>>,
        R: Respond<Req, Res, Err>,
    {
        let mut answer = future.poll(cx).map_err(R::inner_error);
        if let (Some(note), Poll::Ready(Ok(response))) = (note, &mut answer) {
            note.write::<Req, _, Err>(response);
        }
        answer
    }

    fn write<Req, Res, Err>(&self, response: &mut Res)
    where
        R: Respond<Req, Res, Err>,
    {
        let limit = self.settings.limiter.choice().kept(&self.kept);
        let decision = limit.decision_of(&self.admission);
        let respond = &self.settings.options.respond;
        respond.annotate(&decision, response);
    }
}

/// Shows the decision to an admitted request, if that was asked for.
///
/// It takes the request by reference, so that it is moved once only: into the inner service.
#[inline]
pub(crate) fn expose<Req, L: Limit, A, S, F, C, R, X, E, D: Expose<Req>>(
    settings: &Settings<A, S, F, Options<C, R, X, E, D>>,
    limit: &L,
    request: &mut Req,
    admission: &L::Snapshot,
) {
    if D::EXPOSES {
        let decision = limit.decision_of(admission);
        settings.options.expose.expose(request, decision);
    }
}

/// Answers a request whose key extractor rejected it.
#[cold]
fn reject<Req, Res, Err, A, S, F, C, R, X, E, D>(
    settings: &Settings<A, S, F, Options<C, R, X, E, D>>,
    request: &Req,
    rejection: impl Rejection,
) -> Result<Res, R::Error>
where
    R: Respond<Req, Res, Err>,
{
    let rejection = rejection.into_response();
    settings.options.respond.reject(request, rejection)
}

/// Answers a request that was refused.
#[cold]
pub(crate) fn refuse<Req, Res, Err, L: Limit, A, S, F, C, R, X, E, D>(
    settings: &Settings<A, S, F, Options<C, R, X, E, D>>,
    limit: &L,
    request: &Req,
    refusal: &L::Snapshot,
) -> Result<Res, R::Error>
where
    R: Respond<Req, Res, Err>,
{
    let mut decision = limit.decision_of(refusal);
    decision.resolve();
    tell_of_what_lets_nothing_through(&decision);
    settings.options.respond.refuse(request, decision)
}

/// Tells the operator, once for each policy, of a burst or a capacity of 0: it is legal, but may
/// have been meant as "no bursts". A quota of 0 units says what it does, and is not told; it has a
/// window, which a burst of 0 has not.
fn tell_of_what_lets_nothing_through(decision: &Decision) {
    static TOLD: ToldOnce = ToldOnce::new();

    let nothing = |policy: &&PolicyDecision| policy.limit() == 0 && policy.window().is_zero();
    for policy in decision.policies().iter().filter(nothing) {
        if TOLD.is_new(policy.policy()) {
            tracing::warn!(
                name: "layer.nothing_let_through",
                target: "tollgate::layer",
                policy = policy.policy(),
                "a limit with a burst or a capacity of 0 refuses every request: 1 lets them through one by one"
            );
        }
    }
}

/// What becomes of a request that the store could not decide about: `None` lets it through.
#[cold]
pub(crate) fn undecided<Req, Res, Err, A, S, F, C, R, X, E, D>(
    settings: &Settings<A, S, F, Options<C, R, X, E, D>>,
    request: &Req,
    error: &StoreError,
) -> Option<Result<Res, R::Error>>
where
    R: Respond<Req, Res, Err>,
    E: HandleStoreError,
{
    let options = &settings.options;
    match store_error::admits(&options.on_store_error, error) {
        true => None,
        false => Some(options.respond.unavailable(request, error)),
    }
}
