//! Chooses the algorithm of each request: one for all, one by plan, or one that can be replaced.
//!
//! | for | use |
//! |---|---|
//! | the same numbers for everyone | the [algorithm](crate::algorithm) itself |
//! | free, paid and internal callers; a customer with numbers of their own | [`by_request`] |
//! | numbers that are replaced while the program runs | `Reloadable` (feature `reload`) |
//! | both | a `Reloadable` in the closure of [`by_request`] |
//!
//! # What is kept when a caller's numbers change
//!
//! A bucket belongs to a policy and a key, and a policy with a name *is* its name. So give all
//! plans of one limit the same name: then a caller whose plan changes keeps the bucket, and the
//! next request is judged by the new numbers. Without a name each plan's numbers are a policy of
//! their own, with buckets of their own.
//!
//! | algorithm | what is carried over |
//! |---|---|
//! | [`TokenBucket`], [`Gcra`], [`LeakyBucket`] | the units that were owed at the last charge, paid off at the new rate since then |
//! | [`FixedWindow`] | the units taken in the window, until one new period after its start |
//! | [`SlidingWindow`] | the units of the window in which the last charge was, and of the one before, by the new period |
//! | [`SlidingLog`], [`SlidingBuckets`] | every admission that still counted at the last charge, for as long as the new period says |
//! | [`MinInterval`] | the instant of the last admission |
//! | a tuple | each member as above |
//!
//! More may have been used than the new numbers allow: then nothing is admitted until enough of it
//! is over.
//!
//! # Plans in turn
//!
//! Callers with different numbers may use one bucket in turn. *In any span of a plan's period, that
//! plan admits no more than its bound, for any calls of the others in between.* What the others
//! admit counts too, and fills a bucket at most. So a caller who goes back to a plan finds what it
//! had counted:
//!
//! | algorithm | what is kept beside the plan of the last admission |
//! |---|---|
//! | a log, sub-counters | every entry that matters to one of the plans: as old as the longest span, and no more units than the largest quota |
//! | [`MinInterval`] | nothing: the last admission is all that matters |
//! | all others | the count of one other plan while that plan owes something. All further plans are kept as one: the most units that any of them had counted, the latest instant at which one did, until when that matters, and for how long after its own instant at most. A plan that comes back before that, or for the first time, begins with as many units |
//!
//! A refused request changes none of this. `tests/properties/tests/in_turn.rs` tests the rule, and
//! `tests/plans.rs` the rows of the first table. A state may be forgotten once it is as good as
//! fresh for every plan that was admitted. In memory it is kept for [three windows of the slowest
//! configuration seen](crate::algorithm::ConfigId::retention).
//!
//! [`TokenBucket`]: crate::algorithm::TokenBucket
//! [`Gcra`]: crate::algorithm::Gcra
//! [`LeakyBucket`]: crate::algorithm::LeakyBucket
//! [`FixedWindow`]: crate::algorithm::FixedWindow
//! [`SlidingWindow`]: crate::algorithm::SlidingWindow
//! [`SlidingLog`]: crate::algorithm::SlidingLog
//! [`SlidingBuckets`]: crate::algorithm::SlidingBuckets
//! [`MinInterval`]: crate::algorithm::MinInterval

use crate::limit::Limit;

mod by_request;
#[cfg(feature = "reload")]
mod reloadable;

pub use by_request::{ByRequest, by_request};
#[cfg(feature = "reload")]
pub use reloadable::Reloadable;

/// Chooses the algorithm of each request.
///
/// An algorithm chooses itself for every request. Implement the trait for a table of plans, where
/// the closure of [`by_request`] would have to clone the plan.
///
/// # Example: plans in a table
///
/// ```
/// use http::Request;
/// use tollgate::{Quota, RateLimitLayer};
/// use tollgate::{algorithm::FixedWindow, choice::Choose, key::Header, store::LocalStore};
///
/// #[derive(Clone)]
/// struct Plans([FixedWindow; 2]);
///
/// impl<B> Choose<Request<B>> for Plans {
///     type Limit = FixedWindow;
///     type Choice = usize;
///
///     fn choose(&self, request: &Request<B>) -> usize {
///         usize::from(request.headers().contains_key("x-paid"))
///     }
///     fn limit<'a>(&'a self, plan: &'a usize) -> &'a FixedWindow {
///         &self.0[*plan]
///     }
/// }
///
/// # use http::Response;
/// # use tower::{Layer, Service, ServiceExt};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let plans = Plans([2, 5].map(|units| FixedWindow::new(Quota::per_day(units)).named("daily")));
/// let limit = RateLimitLayer::new(plans, LocalStore::new(), Header::new("x-user"));
/// # let inner = tower::service_fn(|_| async { Ok::<_, ()>(Response::new(String::new())) });
/// # let service = limit.layer(inner);
/// let request = Request::get("/").header("x-user", "bob").header("x-paid", "yes");
/// let response = service.oneshot(request.body(String::new()).unwrap()).await.unwrap();
/// assert_eq!(response.headers()["ratelimit"].to_str().unwrap().split(';').nth(1), Some("r=4"));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` chooses no algorithm for requests of type `{Req}`",
    label = "neither an algorithm nor a choice of one for `{Req}`",
    note = "use one of `tollgate::algorithm` (`TokenBucket::new(Quota::per_second(20))`, say), or let a closure choose one: `tollgate::choice::by_request(|request: &{Req}| ..)`",
    note = "a `RateLimiter` has no request: its choice is made for `()`"
)]
pub trait Choose<Req> {
    /// The algorithm, or [each of several](crate::EachOf).
    type Limit: Limit;
    /// What was chosen. It stays with the request until the response is there, so it should be
    /// small: an index into a table, say.
    type Choice: Send + 'static;

    /// Chooses for this request.
    fn choose(&self, request: &Req) -> Self::Choice;

    /// The limit that was chosen.
    fn limit<'a>(&'a self, choice: &'a Self::Choice) -> &'a Self::Limit;
}

impl<Req, L: Limit> Choose<Req> for L {
    type Limit = L;
    type Choice = ();

    #[inline]
    fn choose(&self, _request: &Req) {}

    #[inline]
    fn limit<'a>(&'a self, (): &'a ()) -> &'a L {
        self
    }
}
