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
//! Give all plans of one limit the same name: then a caller whose plan changes keeps the bucket,
//! and the next request is judged by the new numbers. So each plan admits no more than it would
//! alone, for any calls of the others in between, and nobody waits longer than the slowest of them
//! takes to recover. Without a name each plan's numbers are a policy of their own, with buckets of
//! their own.
//!
//! | algorithm | what is kept | begins anew under another |
//! |---|---|---|
//! | [`TokenBucket`], [`Gcra`], [`LeakyBucket`] | how long it needs to recover | tick, for numbers too large to be counted in microseconds; quota of 0 units or not |
//! | [`FixedWindow`], [`SlidingWindow`], [`SlidingLog`], [`SlidingBuckets`] | what it has counted | period, precision, or start of the windows |
//! | [`MinInterval`] | the instant from which on it is free | |
//! | [`InFlight`] | the places that are taken | |
//! | a tuple | each member as above | |
//!
//! A bucket keeps the *time* until it has recovered, and not the units: after 100 a day becomes 100
//! a second, one who has spent all waits the day out. [`reset`](crate::RateLimiter::reset) ends
//! that. What was counted may be more than the new numbers allow: then nothing is admitted until
//! enough of it is over.
//!
//! One exception lets a plan admit more than alone. A debit, refund or settlement writes that time
//! in the parts of a unit of the plan that makes it, up to 2^53 of them. That is centuries for most
//! numbers, but may be less than a slow plan's time where units and period share few factors: of 30
//! days that are owed to 1 000 in 30 days, 10 are left after a plan of 10 007 a minute has debited
//! one.
//!
//! `tests/plans.rs` tests what begins anew, and `tests/properties/tests/in_turn.rs` the
//! bounds.
//!
//! [`TokenBucket`]: crate::algorithm::TokenBucket
//! [`Gcra`]: crate::algorithm::Gcra
//! [`LeakyBucket`]: crate::algorithm::LeakyBucket
//! [`FixedWindow`]: crate::algorithm::FixedWindow
//! [`SlidingWindow`]: crate::algorithm::SlidingWindow
//! [`SlidingLog`]: crate::algorithm::SlidingLog
//! [`SlidingBuckets`]: crate::algorithm::SlidingBuckets
//! [`MinInterval`]: crate::algorithm::MinInterval
//! [`InFlight`]: crate::algorithm::InFlight

use crate::algorithm::Limit;

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
