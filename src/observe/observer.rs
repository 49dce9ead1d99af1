//! The trait of observers, which see the outcome of each request and each call of a limiter.

use super::Event;

/// Sees the outcome of each request of a [layer](crate::RateLimitLayer::observe), or of each call
/// of a [limiter](crate::RateLimiter::observe), once.
///
/// A closure `|event: &Event<'_, K>| ..` implements it, and so does a pair of observers.
///
/// # Example: the store's time of the slowest request
///
/// ```
/// use std::{sync::{Arc, Mutex}, time::Duration};
/// use tollgate::observe::{Event, Observe};
///
/// #[derive(Debug, Clone, Default)]
/// struct Slowest(Arc<Mutex<Duration>>);
///
/// impl<K> Observe<K> for Slowest {
///     fn observe(&self, event: &Event<'_, K>) {
///         let took = event.store_time().unwrap_or_default();
///         let mut slowest = self.0.lock().unwrap();
///         *slowest = slowest.max(took);
///     }
///     fn times_store(&self) -> bool {
///         true
///     }
/// }
/// # use tollgate::{Quota, RateLimitLayer, algorithm::Gcra, key::Global, store::LocalStore};
/// # use tollgate::response::AsError;
/// # use tower::{Layer, ServiceExt};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let slowest = Slowest::default();
/// # let limit = RateLimitLayer::new(Gcra::new(Quota::per_day(1)), LocalStore::new(), Global);
/// # let limit = limit.respond_with(AsError).observe(slowest.clone());
/// # let inner = tower::service_fn(async |()| Ok::<(), std::convert::Infallible>(()));
/// # limit.layer(inner).oneshot(()).await.unwrap();
/// # assert!(*slowest.0.lock().unwrap() > Duration::ZERO);
/// # });
/// ```
///
/// # What an implementor must and must not do
///
/// - It must be cheap to clone, and its clones must share what they count: each clone of a layer or
///   a limiter, and each service, has a clone of the observer.
/// - It must not block or take long: it runs in the task of the request or the call. It may use a
///   limiter of the same store, as no lock is held.
/// - If it panics, that task panics: see [`observe`](super).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not observe requests whose keys are of type `{K}`",
    label = "not an observer of requests with keys of type `{K}`",
    note = "use a closure that names this type, `|event: &tollgate::observe::Event<'_, {K}>| ..`, or implement `tollgate::observe::Observe<{K}>`"
)]
pub trait Observe<K> {
    /// Sees one request, or one call.
    fn observe(&self, event: &Event<'_, K>);

    /// Whether the time that the store takes is measured, which reads the monotonic clock twice for
    /// each request or call. By default it is not. On a platform without that clock, such as
    /// `wasm32-unknown-unknown`, reading it panics.
    fn times_store(&self) -> bool {
        false
    }

    /// Whether no event is made, as there is no observer.
    #[doc(hidden)]
    fn is_silent(&self) -> bool {
        false
    }
}

/// No observer: the default.
impl<K> Observe<K> for () {
    fn observe(&self, _event: &Event<'_, K>) {}

    fn is_silent(&self) -> bool {
        true
    }
}

// Without this the compiler would say "expected a closure" for every other type.
#[diagnostic::do_not_recommend]
impl<K, F: Fn(&Event<'_, K>)> Observe<K> for F {
    fn observe(&self, event: &Event<'_, K>) {
        self(event);
    }
}

#[diagnostic::do_not_recommend]
impl<K, A: Observe<K>, B: Observe<K>> Observe<K> for (A, B) {
    fn observe(&self, event: &Event<'_, K>) {
        self.0.observe(event);
        self.1.observe(event);
    }

    fn times_store(&self) -> bool {
        self.0.times_store() || self.1.times_store()
    }
}
