//! A closure that chooses the limit of each request.

use std::fmt;

use crate::algorithm::Limit;

use super::Choose;

/// Holds each request to the limit that the closure gives for it: by plan, by tenant, by route.
///
/// The closure sees the request with what outer layers left in its extensions. It runs once for
/// each request that has a key, inside of `Service::call`: it must not block, and if it panics, the
/// panic goes on to the caller of the service and nothing has been charged. It returns a
/// limit by value. Make the limits of a few plans once and clone them: a clone allocates nothing,
/// and a new limit hashes its name again.
///
/// Limits of all plans are of one type, and should have [one name](super): without one each set of
/// numbers is a policy whose table a store in memory keeps for as long as it lives. For callers
/// without any limit there is [`exempt`](crate::RateLimitLayer::exempt).
///
/// A [`RateLimiter`](crate::RateLimiter) over it has neither `check` nor `peek` nor `reset`: they
/// have no request. Make a limiter of one plan's algorithm and a clone of the store.
///
/// # Example: paying callers get more, and keep their count when they begin to pay
///
/// ```
/// use http::Request;
/// use tollgate::{Quota, RateLimitLayer};
/// use tollgate::{algorithm::FixedWindow, choice::by_request, key::Header, store::LocalStore};
///
/// #[derive(Clone, Copy)]
/// enum Plan {
///     Free,
///     Paid,
/// }
///
/// # use http::Response;
/// # use tower::{Layer, Service, ServiceExt};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let free = FixedWindow::new(Quota::per_day(2)).named("daily");
/// let paid = FixedWindow::new(Quota::per_day(5)).named("daily");
/// let limit = RateLimitLayer::new(
///     by_request(move |request: &Request<String>| match request.extensions().get() {
///         Some(Plan::Paid) => paid.clone(),
///         _ => free.clone(),
///     }),
///     LocalStore::new(),
///     Header::new("x-user"),
/// );
/// # let inner = tower::service_fn(|_| async { Ok::<_, ()>(Response::new(String::new())) });
/// # let service = limit.layer(inner);
/// let request = |plan: Plan| Request::get("/").header("x-user", "bob").extension(plan).body(String::new());
/// for (plan, status) in [
///     (Plan::Free, 200), (Plan::Free, 200), (Plan::Free, 429),
///     (Plan::Paid, 200), (Plan::Paid, 200), (Plan::Paid, 200), (Plan::Paid, 429),
/// ] {
///     let response = service.clone().oneshot(request(plan).unwrap()).await.unwrap();
///     assert_eq!(response.status(), status);
/// }
/// # });
/// ```
pub fn by_request<F, Req, L>(choose: F) -> ByRequest<F>
where
    F: Fn(&Req) -> L,
    L: Limit,
{
    ByRequest(choose)
}

/// Chooses the limit of each request by a closure: what [`by_request`] returns.
#[derive(Clone, Copy)]
pub struct ByRequest<F>(F);

// Without this the compiler would say "expected a closure" of one for another type of request.
#[diagnostic::do_not_recommend]
impl<Req, F: Fn(&Req) -> L, L: Limit> Choose<Req> for ByRequest<F> {
    type Limit = L;
    type Choice = L;

    #[inline]
    fn choose(&self, request: &Req) -> L {
        (self.0)(request)
    }

    #[inline]
    fn limit<'a>(&'a self, chosen: &'a L) -> &'a L {
        chosen
    }
}

impl<F> fmt::Debug for ByRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByRequest").finish_non_exhaustive()
    }
}
