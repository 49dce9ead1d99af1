//! Calls the observer of a layer.

use crate::{
    choice::Choose,
    observe::{Event, Observe, Outcome},
};

use super::{
    Options, RateLimitLayer,
    decide::{SnapshotOf, StoreQuery},
};

#[expect(clippy::type_complexity, reason = "each option has a type of its own")]
impl<A, S, F, C, R, X, E, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N, W>> {
    /// Calls this observer once for each request, with its outcome: admitted, refused, exempt,
    /// without a key, or undecided.
    ///
    /// The observer is a closure that names the type of the key, or an
    /// [`Observe`](crate::observe::Observe): see [`observe`](crate::observe). A second call
    /// replaces the observer; take a tuple for two. It runs in the request's task, and the request
    /// waits for it. Without an observer there is no cost.
    ///
    /// # Example: how many requests were let through, and how many refused
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::FixedWindow, key::Global, observe::Event, store::LocalStore};
    /// # use axum::{Router, body::Body, http::Request, routing::get};
    /// # use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// // The refused ones, then those that pass.
    /// let counts = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    /// let seen = Arc::clone(&counts);
    /// let two = FixedWindow::new(Quota::per_day(2));
    /// let limit = RateLimitLayer::new(two, LocalStore::new(), Global)
    ///     .observe(move |event: &Event<'_, ()>| {
    ///         seen[usize::from(event.passes())].fetch_add(1, Relaxed);
    ///     });
    /// # let app: Router = Router::new().route("/", get(|| async {})).layer(limit);
    /// # for _ in 0..5 {
    /// #     let request = Request::get("/").body(Body::empty()).unwrap();
    /// #     app.clone().oneshot(request).await.unwrap();
    /// # }
    /// // After five requests:
    /// assert_eq!(counts.each_ref().map(|count| count.load(Relaxed)), [3, 2]);
    /// # });
    /// ```
    pub fn observe<O>(self, observer: O) -> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N, O>> {
        self.with(|(c, r, x, e, z, n, _)| (c, r, x, e, z, n, observer))
    }
}

impl<A, S, F, C, R, X, E, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N, W>> {
    /// Reports an admitted request.
    #[inline]
    pub(super) fn observe_admitted<Req, K>(
        &self,
        query: &StoreQuery<A::Choice, K>,
        snapshot: &SnapshotOf<A, Req>,
    ) where
        A: Choose<Req>,
        W: Observe<K>,
    {
        if self.options.observe.is_silent() {
            return;
        }
        let limit = self.limiter.algorithm().limit(&query.choice);
        let outcome = match snapshot {
            Ok(_) => Outcome::Admitted,
            Err(_) => Outcome::Degraded,
        };
        self.options.observe.observe(&Event {
            decided: Some(&(limit, snapshot.as_ref().map_err(|decision| &**decision))),
            passes: true,
            ..query.event(outcome)
        });
    }
}
