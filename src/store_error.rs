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
/// // In the place of a `RedisStore`, this one answers.
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
/// # Example: one deadline that was missed lets through, a lost connection does not
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
    /// It is refused: 503, gRPC `UNAVAILABLE`. The default.
    #[default]
    Refuse,
    /// It is let through, uncounted and without rate-limit fields.
    Admit,
}

/// Chooses what happens to a request while the store is unavailable.
///
/// An [`OnStoreError`] is one, and so is a closure `|error: &StoreError| …` that answers one. A
/// [`RateLimiter`](crate::RateLimiter) stands in the same place, but decides by itself.
pub trait HandleStoreError {
    /// The choice. It is asked for [`StoreErrorKind::Unavailable`] only: a store that is set up
    /// wrongly, or a request that cannot be stored, is always refused, or callers could choose
    /// to be let through.
    fn handle(&self, error: &StoreError) -> OnStoreError;
}

impl HandleStoreError for OnStoreError {
    fn handle(&self, _error: &StoreError) -> OnStoreError {
        *self
    }
}

// Without this the compiler would say "expected a closure" of every type that is not one.
#[diagnostic::do_not_recommend]
impl<F: Fn(&StoreError) -> OnStoreError> HandleStoreError for F {
    fn handle(&self, error: &StoreError) -> OnStoreError {
        self(error)
    }
}

/// Whether the request passes undecided. The store has logged the error: it knows for how long.
pub(crate) fn admits(handler: &impl HandleStoreError, error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::Unavailable => handler.handle(error) == OnStoreError::Admit,
        StoreErrorKind::Misconfigured | StoreErrorKind::InvalidInput => false,
    }
}
