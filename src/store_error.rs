//! What happens to a request that the store could not decide about.

use crate::error::{StoreError, StoreErrorKind};

/// What happens to a request while the store is unavailable.
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
/// use tollgate::{HandleStoreError, OnStoreError, StoreError, StoreErrorKind};
///
/// let choice = |error: &StoreError| match error.to_string().contains("no connection") {
///     true => OnStoreError::Refuse,
///     false => OnStoreError::Admit,
/// };
/// let late = StoreError::new(StoreErrorKind::Unavailable, "no answer in 100 ms");
/// assert_eq!(choice.handle(&late), OnStoreError::Admit);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// The request is refused with 503, or gRPC's `UNAVAILABLE`. The default.
    #[default]
    Refuse,
    /// The request is admitted, uncounted and without rate-limit fields.
    Admit,
}

/// Chooses what happens to a request while the store is unavailable.
///
/// An [`OnStoreError`] implements it, and so does a closure `|error: &StoreError| …` that returns
/// one. A [`RateLimiter`](crate::RateLimiter) can be given instead, and decides by itself.
pub trait HandleStoreError {
    /// The choice. It is called for [`StoreErrorKind::Unavailable`] only. If the store is
    /// misconfigured, or cannot store the request, the request is always refused: otherwise callers
    /// could choose to be admitted.
    fn handle(&self, error: &StoreError) -> OnStoreError;
}

impl HandleStoreError for OnStoreError {
    fn handle(&self, _error: &StoreError) -> OnStoreError {
        *self
    }
}

// Without this the compiler would say "expected a closure" for every other type.
#[diagnostic::do_not_recommend]
impl<F: Fn(&StoreError) -> OnStoreError> HandleStoreError for F {
    fn handle(&self, error: &StoreError) -> OnStoreError {
        self(error)
    }
}

/// Whether the request passes undecided. The store logs its own errors.
pub(crate) fn admits(handler: &impl HandleStoreError, error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::Unavailable => handler.handle(error) == OnStoreError::Admit,
        StoreErrorKind::Misconfigured | StoreErrorKind::InvalidInput => false,
    }
}
