//! Counters and histograms of the outcomes of requests and calls, for the crate `metrics`.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use metrics::{Counter, Histogram, Unit, counter, describe_counter, describe_histogram, histogram};

use crate::decision::PolicyDecision;

use super::{Event, Observe, Outcome, usage::StoreUsage};

const REQUESTS: &str = "tollgate.requests";
const UNITS: &str = "tollgate.units";
const POLICY_REQUESTS: &str = "tollgate.policy.requests";
const WAIT: &str = "tollgate.wait.duration";
const STORE: &str = "tollgate.store.duration";

/// The values of the label `outcome` of what is decided: the first outcomes, and at the end a
/// refusal in the store's place.
const DECIDED: [&str; 5] = [
    Outcome::Admitted.name(),
    Outcome::Refused.name(),
    Outcome::ShadowRefused.name(),
    Outcome::Degraded.name(),
    "degraded_refused",
];

const DEGRADED_REFUSED: usize = 4;

/// The label value of all policies beyond [`MAX_POLICIES`].
const OTHER: &str = "_OTHER";

/// Counts the outcomes of requests and of calls, for the recorder of the crate `metrics`:
/// Prometheus, StatsD, OpenTelemetry and others have one.
///
/// | name | kind | unit | labels | what |
/// |---|---|---|---|---|
/// | `tollgate.requests` | counter | requests | `limit`, `outcome` | each request of a layer, or each call of a limiter, by the [name](Outcome::name) of its outcome |
/// | `tollgate.units` | counter | units | `limit`, `outcome` | the cost of each request that was decided, by the decision; and the units that were `debited` |
/// | `tollgate.policy.requests` | counter | requests | `limit`, `policy`, `outcome` | requests that were charged to a policy (`admitted`), that it refused (`refused`), or that it would have refused if it were enforced (`shadow_refused`); each member of a tuple counts, those in [shadow](crate::algorithm::Policy::shadow) too |
/// | `tollgate.wait.duration` | histogram | seconds | `limit`, `outcome` | the delay of requests that are admitted and delayed, how long `until_ready` has waited, and the wait of those that are over their limit, if there is one |
/// | `tollgate.store.duration` | histogram | seconds | `limit` | how long the store took to decide, [if enabled](Self::store_duration) |
///
/// Prometheus writes `_` for `.`: `tollgate_requests{limit="api",outcome="refused"}`.
///
/// - **While the store is down** the limiter of
///   [`on_store_error`](crate::RateLimitLayer::on_store_error) decides. Its policies are counted
///   under their own names: `degraded` if they were charged, `degraded_refused` if they refused, or
///   would have refused if they were enforced. Units and waits have the same outcomes;
///   `tollgate.requests` has both as `degraded`.
/// - **Labels are bounded**: keys are never labels. `limit` is the name given to `new`. `policy` is
///   the name of the policy, for the first hundred; later ones share the value `_OTHER`. So policy
///   names made from requests cannot fill memory.
/// - **Install the recorder first**: `new` registers handles with the current recorder, and a
///   policy registers its own when it first decides. Clones share them.
/// - **Cost**: an admitted request of one policy increments three counters, found without a lock.
///
/// # Example: what Prometheus scrapes
///
/// ```
/// use axum::{Router, routing::get};
/// use metrics_exporter_prometheus::PrometheusBuilder;
/// use tollgate::{Quota, RateLimitLayer};
/// use tollgate::{algorithm::FixedWindow, key::Global, observe::Metrics, store::LocalStore};
/// # use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let prometheus = PrometheusBuilder::new().install_recorder().unwrap();
/// let daily = FixedWindow::new(Quota::per_day(2)).named("daily");
/// let limit = RateLimitLayer::new(daily, LocalStore::new(), Global).observe(Metrics::new("api"));
/// let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
/// # for _ in 0..5 {
/// #     let request = axum::http::Request::get("/").body(axum::body::Body::empty()).unwrap();
/// #     app.clone().oneshot(request).await.unwrap();
/// # }
/// // After five requests:
/// let scraped = prometheus.render();
/// assert!(scraped.contains(r#"tollgate_requests{limit="api",outcome="admitted"} 2"#));
/// assert!(scraped.contains(
///     r#"tollgate_policy_requests{limit="api",policy="daily",outcome="refused"} 3"#
/// ));
/// # });
/// ```
#[derive(Clone)]
pub struct Metrics {
    handles: Arc<Handles>,
    store: Option<Histogram>,
}

/// The counters and histograms of one limit.
struct Handles {
    limit: String,
    /// One for each outcome.
    requests: [Counter; Outcome::ALL.len()],
    /// The units and the wait, for each of [`DECIDED`].
    decided: [(Counter, Histogram); DECIDED.len()],
    debited_units: Counter,
    /// The counters of the first policies, by name. A slot that is taken is never freed, so that
    /// they are read without a lock.
    policies: [OnceLock<(String, PolicyCounters)>; MAX_POLICIES],
    other_policies: OnceLock<PolicyCounters>,
}

impl Metrics {
    /// Counts the requests of a layer, or the calls of a limiter, with this value of the label
    /// `limit`.
    ///
    /// Two `Metrics` with the same name are counted together.
    pub fn new(limit: impl Into<String>) -> Self {
        describe();
        let limit = limit.into();
        let requests = Outcome::ALL.map(
            |outcome| counter!(REQUESTS, "limit" => limit.clone(), "outcome" => outcome.name()),
        );
        let handles = Handles {
            requests,
            decided: DECIDED.map(|outcome| {
                let wait = histogram!(WAIT, "limit" => limit.clone(), "outcome" => outcome);
                (units(&limit, outcome), wait)
            }),
            debited_units: units(&limit, Outcome::Debited.name()),
            policies: [const { OnceLock::new() }; MAX_POLICIES],
            other_policies: OnceLock::new(),
            limit,
        };
        Self {
            handles: Arc::new(handles),
            store: None,
        }
    }

    /// Records how full or how healthy a store is, as its `usage()` says. Call this every few
    /// seconds, or before each scrape.
    ///
    /// | name | kind | unit | labels | of |
    /// |---|---|---|---|---|
    /// | `tollgate.store.keys` | gauge | keys | `limit` | a `LocalStore`: keys that have an entry |
    /// | `tollgate.store.overflow` | counter | decisions | `limit` | a `LocalStore`: decisions by the overflow bucket that new keys share while it is full |
    /// | `tollgate.redis.decisions` | counter | decisions | `limit`, `outcome` | a `RedisStore`: `admitted`, `refused`, `unavailable`, `misconfigured`, `invalid` |
    /// | `tollgate.redis.joined` | counter | decisions | `limit` | a `RedisStore`: decisions that shared a call with others |
    /// | `tollgate.redis.remembered` | counter | decisions | `limit` | a `RedisStore`: requests that were refused without asking Redis |
    /// | `tollgate.redis.leased` | counter | decisions | `limit` | a `RedisStore`: requests that were admitted by leased units |
    /// | `tollgate.redis.units_leased` | counter | units | `limit` | a `RedisStore`: units that this process has leased |
    /// | `tollgate.redis.units_held` | gauge | units | `limit` | a `RedisStore`: leased units that are not spent yet |
    /// | `tollgate.redis.units_given_back` | counter | units | `limit` | a `RedisStore`: leased units that were given back |
    /// | `tollgate.redis.units_lost` | counter | units | `limit` | a `RedisStore`: units that calls which failed asked for or gave back |
    /// | `tollgate.redis.in_flight` | gauge | commands | `limit` | a `RedisStore`: commands that wait for an answer |
    /// | `tollgate.redis.reconnects` | counter | connections | `limit` | a `RedisStore`: connections that were replaced |
    /// | `tollgate.redis.last_answer.age` | gauge | seconds | `limit` | a `RedisStore`: time since the last answer from Redis |
    pub fn record_usage(&self, usage: &impl StoreUsage) {
        usage.record(&self.handles.limit);
    }

    /// Also measures how long the store takes to decide, which reads the clock twice more for each
    /// request.
    #[must_use]
    pub fn store_duration(mut self) -> Self {
        describe_histogram!(STORE, Unit::Seconds, "How long the store took to decide.");
        self.store = Some(histogram!(STORE, "limit" => self.handles.limit.clone()));
        self
    }
}

impl<K> Observe<K> for Metrics {
    fn observe(&self, event: &Event<'_, K>) {
        let (handles, outcome) = (&*self.handles, event.outcome());
        handles.requests[outcome as usize].increment(1);
        if outcome == Outcome::Debited {
            handles.debited_units.increment(event.cost().into());
        }
        // Not `event.decision()`, which moves the decision into an `Option`: a tenth of this
        // function's instructions (bench `instructions`, the row `layer, counted`).
        if let Some(decided) = event.decided {
            let decision = decided.decision();
            let which = match outcome {
                Outcome::Degraded if !decision.is_admitted() => DEGRADED_REFUSED,
                _ => outcome as usize,
            };
            let (units, wait) = &handles.decided[which];
            units.increment(event.cost().into());
            for policy in decision.policies() {
                // If a tuple refuses, only the members that refused are counted.
                if decision.is_admitted() || !policy.is_admitted() {
                    handles.counters(policy)[which].increment(1);
                }
            }
            event.describe_shadows(&mut |policy, would_refuse| {
                let which = match would_refuse {
                    true => Outcome::ShadowRefused,
                    false => Outcome::Admitted,
                };
                handles.counters(&policy)[which as usize].increment(1);
            });
            if let Some(waited) = event.wait(&decision) {
                wait.record(waited);
            }
        }
        if let (Some(store), Some(took)) = (&self.store, event.store_time()) {
            store.record(took);
        }
    }

    fn times_store(&self) -> bool {
        self.store.is_some()
    }
}

impl Handles {
    /// The counters of a policy, which are made if it is new.
    fn counters(&self, policy: &PolicyDecision) -> &PolicyCounters {
        let name = policy.policy();
        for slot in &self.policies {
            let (known, counters) = slot.get_or_init(|| (name.to_owned(), self.new_counters(name)));
            if known == name {
                return counters;
            }
        }
        self.other_policies.get_or_init(|| self.new_counters(OTHER))
    }

    #[cold]
    fn new_counters(&self, policy: &str) -> PolicyCounters {
        DECIDED.map(|outcome| {
            counter!(
                POLICY_REQUESTS,
                "limit" => self.limit.clone(), "policy" => policy.to_owned(), "outcome" => outcome
            )
        })
    }
}

fn units(limit: &str, outcome: &'static str) -> Counter {
    counter!(UNITS, "limit" => limit.to_owned(), "outcome" => outcome)
}

fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "The outcome of each request.");
    describe_counter!(UNITS, Unit::Count, "The cost of each request.");
    describe_counter!(
        POLICY_REQUESTS,
        Unit::Count,
        "Requests that were charged to a policy or refused by it."
    );
    describe_histogram!(
        WAIT,
        Unit::Seconds,
        "The delay of admitted requests, and the announced wait of refused ones."
    );
}

/// One for each of [`DECIDED`].
type PolicyCounters = [Counter; DECIDED.len()];

/// The first policies, which have counters of their own.
const MAX_POLICIES: usize = 100;

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("limit", &self.handles.limit)
            .field("times_store", &self.store.is_some())
            .finish_non_exhaustive()
    }
}
