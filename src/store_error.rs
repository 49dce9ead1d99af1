//! What happens to a request that the store could not decide about.

/// What happens to a request while the store is unavailable.
///
/// [`on_store_error`](crate::RateLimitLayer::on_store_error) takes one, a closure `|error:
/// &StoreError| …` that returns one, or a [`RateLimiter`](crate::RateLimiter), which decides by
/// itself. They are asked for [`StoreErrorKind::Unavailable`](crate::StoreErrorKind::Unavailable)
/// only. If the store is misconfigured, or cannot store the request, the request is always refused:
/// otherwise callers could choose to be admitted.
///
/// # Example: a smaller limit in each process, while Redis is down
///
/// ```
/// use http::{Request, Response};
/// use tollgate::{Quota, RateLimitLayer, RateLimiter};
/// use tollgate::{algorithm::FixedWindow, key::Global, store::LocalStore};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let day = |units| FixedWindow::new(Quota::per_day(units));
/// // A `RedisStore`, in a real program.
/// let store = LocalStore::new();
/// let alone = RateLimiter::new(day(2).named("alone"), LocalStore::new());
/// let limit = RateLimitLayer::new(day(100), store, Global).on_store_error(alone.clone());
///
/// # let inner = tower::service_fn(|_| async { Ok::<_, Infallible>(Response::new(String::new())) });
/// let request = Request::get("/").body(String::new()).unwrap();
/// let response = limit.layer(inner).oneshot(request).await.unwrap();
/// assert!(response.headers()["ratelimit"].to_str().unwrap().contains(";r=99;"));
/// // The request was charged to the smaller limit, too.
/// assert_eq!(alone.peek(&()).now().remaining(), 1);
/// # });
/// ```
///
/// # Example: admit after a missed deadline, refuse after a lost connection
///
/// ```
/// use tollgate::{OnStoreError, StoreError, StoreErrorKind};
///
/// let choice = |error: &StoreError| match error.to_string().contains("no connection") {
///     true => OnStoreError::Refuse,
///     false => OnStoreError::Admit,
/// };
/// let late = StoreError::new(StoreErrorKind::Unavailable, "no answer in 100 ms");
/// assert_eq!(choice(&late), OnStoreError::Admit);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// The request is refused with 503, or gRPC's `UNAVAILABLE`. The default.
    #[default]
    Refuse,
    /// The request is admitted, uncounted and without rate-limit fields.
    Admit,
}
