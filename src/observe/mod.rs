//! What operators see: one event for each request of a layer, and for each call of a limiter.
//!
//! [`RateLimitLayer::observe`](crate::RateLimitLayer::observe) takes an observer. It sees each
//! request once, when its outcome is known:
//!
//! | [outcome](Outcome) | the request | key | decision |
//! |---|---|---|---|
//! | `admitted` | was charged and goes on to the inner service, perhaps after a delay | yes | yes |
//! | `refused` | is over its limit: 429 | yes | yes |
//! | `shadow_refused` | is over its limit, which is not [enforced](crate::RateLimitLayer::enforce): passes, and was not charged | yes | yes |
//! | `degraded` | was decided by the limiter of [`on_store_error`](crate::RateLimitLayer::on_store_error), because the store is down: it [passes](Event::passes), or 429 | yes | yes |
//! | `exempt` | passes, because [`exempt`](crate::RateLimitLayer::exempt) says so | no | no |
//! | `no_key` | passes, because its extractor finds no key: no limit applies | no | no |
//! | `rejected` | has no key and must have one: the extractor's rejection, such as 400, or it [passes](Event::passes) if the limit is not enforced | no | no |
//! | `store_error` | could not be decided: 503 or 500, or it [passes](Event::passes) | yes | no |
//!
//! The observer does not see a request whose caller hangs up while a remote store decides.
//!
//! # Calls of a limiter
//!
//! [`RateLimiter::observe`](crate::RateLimiter::observe) takes an observer, too, and its docs say
//! which calls the observer sees. A layer and its [limiter](crate::RateLimitLayer::limiter) each
//! have their own. A limiter has these outcomes:
//!
//! | [outcome](Outcome) | the call | key | decision |
//! |---|---|---|---|
//! | `admitted` | was charged, or holds its cost | yes | yes |
//! | `refused` | is over its limit | yes | yes |
//! | `debited` | was charged by [`debit`](crate::RateLimiter::debit), whether it fits or not | yes | no |
//! | `store_error` | could not be decided, or not be written | yes | no |
//!
//! The other outcomes belong to layers alone. [`Event::describe_shadows`] reports policies [in
//! shadow](crate::algorithm::Policy::shadow), of layers and of limiters.
//!
//! # Ready-made
//!
//! | observer | what it does |
//! |---|---|
//! | a closure `\|event: &Event<'_, IpAddr>\| ..` | what you write; `IpAddr` is the type of the key |
//! | `Metrics` (feature `metrics`) | counters and histograms for Prometheus and others |
//! | `Trace` (feature `local` or `redis`) | fields on the current span, and a log line for a refusal, at most once a minute for each key |
//! | [`MostRefused`] | counts refusals by key, in bounded memory: who is refused most |
//! | `(A, B)` | two observers, one after the other |
//!
//! # A slow observer, and one that panics
//!
//! An observer runs in the request's task, after the decision, and before the inner service is
//! called or the answer is made. No lock is held. So a slow observer delays only its own request.
//! It must not block: send long work to a channel.
//!
//! If an observer panics, the panic reaches the request's task: the request is neither passed on
//! nor answered, and its charge stays. Its [hold](crate::Hold) ends as if the caller had hung up: a
//! place [in flight](crate::algorithm::InFlight) is given back, and so is a turn in a queue. Other
//! requests notice nothing. A limiter's observer runs in the task of the call, and [its
//! panic](crate::RateLimiter::observe) reaches that task.
//!
//! # What it costs
//!
//! Nothing if no observer is set. The decision is made only if the observer [reads
//! it](Event::decision), the key of a limiter's call is copied only if it is read, and the store's
//! time is measured only for an observer that [wants it](Observe::times_store).
//!
//! # Example: refusals of each policy
//!
//! ```
//! use std::{net::IpAddr, sync::{Arc, Mutex}};
//! use axum::{Router, routing::get};
//! use tollgate::{Quota, RateLimitLayer};
//! use tollgate::{algorithm::FixedWindow, key::Global, store::LocalStore};
//! use tollgate::observe::{Event, Outcome};
//! # use tower::ServiceExt;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let refusals = Arc::new(Mutex::new(Vec::new()));
//! let seen = Arc::clone(&refusals);
//! let limit = RateLimitLayer::new(
//!     (FixedWindow::new(Quota::per_day(1)).named("daily"), FixedWindow::new(Quota::per_hour(5))),
//!     LocalStore::new(),
//!     Global,
//! )
//! .observe(move |event: &Event<'_, ()>| {
//!     if let (Outcome::Refused, Some(decision)) = (event.outcome(), event.decision()) {
//!         let refusing = decision.policies().iter().filter(|policy| !policy.is_admitted());
//!         let names = refusing.map(|policy| policy.policy().to_owned());
//!         seen.lock().unwrap().extend(names);
//!     }
//! });
//! let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
//! # for _ in 0..2 {
//! #     let request = axum::http::Request::get("/").body(axum::body::Body::empty()).unwrap();
//! #     app.clone().oneshot(request).await.unwrap();
//! # }
//! assert_eq!(*refusals.lock().unwrap(), ["daily"]);
//! # });
//! ```

mod event;
#[cfg(feature = "metrics")]
mod metrics;
mod most_refused;
mod observer;
#[cfg(any(feature = "local", feature = "redis"))]
mod trace;
#[cfg(feature = "metrics")]
mod usage;

pub(crate) use self::event::EventKey;
#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
#[cfg(any(feature = "local", feature = "redis"))]
pub use self::trace::Trace;
pub use self::{
    event::{Event, Outcome},
    most_refused::MostRefused,
    observer::Observe,
};
