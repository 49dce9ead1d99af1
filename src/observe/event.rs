//! The event of one request, or of one call of a limiter, as an observer sees it.

use std::{fmt, ops::Deref, time::Duration};

use crate::{
    algorithm::Limit,
    decision::{Decision, PolicyDecision},
    error::StoreError,
    store::Source,
};

/// The outcome of a request, or of a call of a [limiter](crate::RateLimiter::observe); the
/// [tables](super) list them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It was charged, and goes on to the inner service: at once, or after the decision's
    /// [delay](Decision::delay).
    Admitted,
    /// It is over its limit, and is answered with 429 (gRPC: `RESOURCE_EXHAUSTED`).
    Refused,
    /// It is over its limit, but the limit is not [enforced](crate::RateLimitLayer::enforce) for
    /// it: it goes on to the inner service, and was not charged.
    ShadowRefused,
    /// The store is unavailable, and the limiter of
    /// [`on_store_error`](crate::RateLimitLayer::on_store_error) has decided in its place: it
    /// [passes](Event::passes) or is refused.
    Degraded,
    /// It passes uncounted, because it is [exempt](crate::RateLimitLayer::exempt).
    Exempt,
    /// It passes uncounted, because the extractor finds no key: no limit applies to it.
    NoKey,
    /// It has no key and must have one: if the limit is [enforced](crate::RateLimitLayer::enforce),
    /// the extractor's rejection is the answer.
    Rejected,
    /// The store could not decide about it.
    StoreError,
    /// [`RateLimiter::debit`](crate::RateLimiter::debit) has charged units, whether they fit or
    /// not: nothing was decided.
    Debited,
}

impl Outcome {
    /// All of them, in the order of the enum.
    #[cfg(feature = "metrics")]
    pub(super) const ALL: [Self; 9] = [
        Self::Admitted,
        Self::Refused,
        Self::ShadowRefused,
        Self::Degraded,
        Self::Exempt,
        Self::NoKey,
        Self::Rejected,
        Self::StoreError,
        Self::Debited,
    ];

    /// Its name in metrics and logs: `admitted`, `no_key` and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Refused => "refused",
            Self::ShadowRefused => "shadow_refused",
            Self::Degraded => "degraded",
            Self::Exempt => "exempt",
            Self::NoKey => "no_key",
            Self::Rejected => "rejected",
            Self::StoreError => "store_error",
            Self::Debited => "debited",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What was decided. The [`Decision`] is made when it is asked for.
pub(crate) trait Decided {
    fn decision(&self) -> Decision;

    fn delay(&self) -> Duration;

    /// Reports each policy in shadow, and whether it would have refused.
    fn describe_shadows(&self, output: &mut dyn FnMut(PolicyDecision, bool));
}

/// By a limit, from the snapshot of its store; or in the store's place.
impl<L: Limit> Decided for (&L, Result<&L::Snapshot, &Decision>) {
    fn decision(&self) -> Decision {
        match self.1 {
            Ok(snapshot) => self.0.decision_of(snapshot),
            Err(decision) => decision.clone(),
        }
    }

    fn delay(&self) -> Duration {
        match self.1 {
            Ok(snapshot) => self.0.delay_of(snapshot),
            Err(decision) => decision.delay(),
        }
    }

    fn describe_shadows(&self, output: &mut dyn FnMut(PolicyDecision, bool)) {
        if let Ok(snapshot) = self.1 {
            self.0.shadows_of(snapshot, output);
        }
    }
}

/// The key that the store was asked about.
#[derive(Clone, Copy)]
pub(crate) enum EventKey<'a, K> {
    OfRequest(&'a K),
    /// Borrowed by a limiter's caller: it is copied when it is first read.
    OfCall(&'a dyn Deref<Target = K>),
}

/// The outcome of one request, or of one call of a limiter, for an [`Observe`](super::Observe).
///
/// `K` is the type of the keys: that of [`PeerIp`](crate::key::PeerIp) is an `IpAddr`, that of an
/// [`EachOf`](crate::EachOf) of extractors is `EachOf<(Option<A>, Option<B>)>`. A limiter that
/// checks `"bob"` has keys of type `String`.
#[derive(Clone, Copy)]
pub struct Event<'a, K> {
    pub(crate) outcome: Outcome,
    pub(crate) cost: u32,
    /// `None` if no store was asked.
    pub(crate) key: Option<EventKey<'a, K>>,
    /// `None` if nothing was decided.
    pub(crate) decided: Option<&'a dyn Decided>,
    pub(crate) error: Option<&'a StoreError>,
    pub(crate) passes: bool,
    pub(crate) store_time: Option<Duration>,
    pub(crate) source: Option<Source>,
    pub(crate) waited: Option<Duration>,
}

impl<'a, K> Event<'a, K> {
    /// A request that was not counted: no store was asked.
    pub(crate) fn uncounted(outcome: Outcome) -> Self {
        Self {
            outcome,
            cost: 0,
            key: None,
            decided: None,
            error: None,
            passes: true,
            store_time: None,
            source: None,
            waited: None,
        }
    }

    /// The outcome.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the request goes on to the inner service; if not, the layer answers it. For a
    /// limiter's call, whether it was charged.
    pub fn passes(&self) -> bool {
        self.passes
    }

    /// The cost, in units; it was charged if the outcome is [`Admitted`](Outcome::Admitted) or
    /// [`Debited`](Outcome::Debited). 0 if no store was asked.
    pub fn cost(&self) -> u32 {
        self.cost
    }

    /// The key whose bucket was asked for; `None` if no store was asked.
    ///
    /// Anybody can choose the value of a header: escape it before you log it, and never use it as a
    /// metric's label. `Debug` and `Display` of [`HeaderKey`](crate::key::HeaderKey) show at most
    /// four bytes of a value.
    ///
    /// For a limiter's call this is a copy, made at the first call of this method.
    pub fn key(&self) -> Option<&'a K> {
        Some(match *self.key.as_ref()? {
            EventKey::OfRequest(key) => key,
            EventKey::OfCall(key) => key,
        })
    }

    /// The decision, with each policy: what is left, the wait of a refused request, the delay of an
    /// admitted one.
    ///
    /// `None` if nothing was decided. Each call makes the decision anew, so call it once; a tuple's
    /// allocates.
    pub fn decision(&self) -> Option<Decision> {
        self.decided.map(Decided::decision)
    }

    /// The wait of a request that is over its limit, or the delay of an admitted one, or how long
    /// it has waited. A delay that is known to be zero is not computed: that saves most decisions a
    /// division.
    pub(super) fn wait(&self, decision: &Decision) -> Option<Duration> {
        match decision.is_admitted() {
            true => {
                let delay = || self.decided.map(Decided::delay);
                (self.waited).or_else(|| delay().filter(|delay| !delay.is_zero()))
            }
            false => decision.retry_after(),
        }
    }

    /// Calls `output` with each policy in [shadow](crate::algorithm::Policy::shadow), and whether
    /// it would have refused this request, which the enforced policies have admitted.
    ///
    /// For a request that was not admitted `output` is not called: policies in shadow are not asked
    /// then.
    ///
    /// # Example: who would be refused by an hourly limit beside the daily one
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::FixedWindow, key::Global, observe::Event, store::LocalStore};
    /// # use axum::{Router, body::Body, http::Request, routing::get};
    /// # use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let daily = FixedWindow::new(Quota::per_day(100)).named("daily");
    /// let hourly = FixedWindow::new(Quota::per_hour(2)).named("hourly").shadow();
    /// let refusing = Arc::new(Mutex::new(Vec::new()));
    /// let seen = Arc::clone(&refusing);
    /// let limit = RateLimitLayer::new((daily, hourly), LocalStore::new(), Global)
    ///     .observe(move |event: &Event<'_, ()>| {
    ///         event.describe_shadows(&mut |policy, would_refuse| {
    ///             if would_refuse {
    ///                 seen.lock().unwrap().push(policy.policy().to_owned());
    ///             }
    ///         });
    ///     });
    /// # let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
    /// # for _ in 0..3 {
    /// #     let request = Request::get("/").body(Body::empty()).unwrap();
    /// #     assert_eq!(app.clone().oneshot(request).await.unwrap().status(), 200);
    /// # }
    /// // After three requests, all of which were let through:
    /// assert_eq!(*refusing.lock().unwrap(), ["hourly"]);
    /// # });
    /// ```
    pub fn describe_shadows(&self, output: &mut dyn FnMut(PolicyDecision, bool)) {
        if let (Outcome::Admitted, Some(decided)) = (self.outcome, self.decided) {
            decided.describe_shadows(output);
        }
    }

    /// The error, if the store could not decide.
    pub fn error(&self) -> Option<&'a StoreError> {
        self.error
    }

    /// How long the store took to answer; `None` if it was not asked, or if the observer does not
    /// [measure it](super::Observe::times_store).
    ///
    /// For a call that [waits](Self::waited) it is the time of the last answer.
    pub fn store_time(&self) -> Option<Duration> {
        self.store_time
    }

    /// What the store has decided by; of a call that waits, the last time.
    ///
    /// `None` if the limit's own store has not decided: the outcome is `store_error`, `degraded` or
    /// `debited`, or no store was asked.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// How long `RateLimiter::until_ready` has waited: in line, for room, and for its
    /// [turn](Decision::delay). `None` if nothing waited, and always in a layer, which reports a
    /// request before its delay.
    pub fn waited(&self) -> Option<Duration> {
        self.waited
    }
}

impl<K: fmt::Debug> fmt::Debug for Event<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("outcome", &self.outcome)
            .field("passes", &self.passes)
            .field("cost", &self.cost)
            .field("key", &self.key())
            .field("decision", &self.decision())
            .field("error", &self.error)
            .field("store_time", &self.store_time)
            .field("source", &self.source)
            .field("waited", &self.waited)
            .finish()
    }
}
