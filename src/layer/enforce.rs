//! The setter that rehearses a layer.

use super::{Options, RateLimitLayer};

#[expect(clippy::type_complexity, reason = "each option has a type of its own")]
impl<A, S, F, C, R, X, E, D, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N, W>> {
    /// Lets every request through for which this says `false`, and decides and counts it all the
    /// same: a rehearsal of the limit that will be enforced, with its costs, plans and keys.
    ///
    /// It is a `bool`, or a closure over the request and its key. A closure is asked once for each
    /// request, so what it reads (an `AtomicBool`, the share of the callers) changes without a
    /// restart. It must name the types that it looks at: `|request: &Request, key:
    /// Option<&IpAddr>| …`. [`percentile`](crate::key::percentile) chooses the same callers in
    /// every process.
    ///
    /// A request that is not enforced never notices the limit:
    ///
    /// - Its response has no rate-limit fields, whether it was admitted or would have been refused.
    /// - It goes on at once where it would have to wait for its turn; that turn stays taken.
    /// - It passes where its key is rejected, and is not counted; a closure is given no key then.
    /// - It passes, uncounted, where the store fails, whatever the kind of the error.
    ///
    /// A handler is told the truth: with [`expose_decision`](Self::expose_decision) it finds the
    /// decision about a request that would have been refused too, with
    /// [`is_admitted`](crate::Decision::is_admitted) `false`. Such a request was charged nothing,
    /// as a refused one, and has no [`Hold`](crate::Hold); take an `Option` of it. That a policy
    /// would refuse is logged once for each, by `tracing`: `layer.would_refuse`.
    ///
    /// # Example: a tenth of the callers, more without a restart
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU8, Ordering}};
    /// use axum::extract::Request;
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::FixedWindow, key::{Header, HeaderKey, percentile}, store::LocalStore};
    /// # use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let percent = Arc::new(AtomicU8::new(10));
    /// let read = Arc::clone(&percent);
    /// let none = FixedWindow::new(Quota::per_day(0));
    /// let limit = RateLimitLayer::new(none, LocalStore::new(), Header::new("x-account"))
    ///     .enforce(move |_: &Request, key: Option<&HeaderKey>| {
    ///         let position = key.map_or(0.0, percentile);
    ///         position < f64::from(read.load(Ordering::Relaxed))
    ///     });
    /// # let app = axum::Router::new().route("/", axum::routing::get(|| async {})).layer(limit);
    /// # let call = async || {
    /// #     let mut refused = 0;
    /// #     for account in 0..200 {
    /// #         let request = Request::get("/").header("x-account", account);
    /// #         let request = request.body(axum::body::Body::empty()).unwrap();
    /// #         let response = app.clone().oneshot(request).await.unwrap();
    /// #         refused += u32::from(response.status() == 429);
    /// #     }
    /// #     refused
    /// # };
    /// # let refused = call().await;
    /// # assert!((5..40).contains(&refused), "{refused} of 200");
    /// percent.store(100, Ordering::Relaxed);
    /// # assert_eq!(call().await, 200);
    /// # });
    /// ```
    pub fn enforce<N2>(
        self,
        enforce: N2,
    ) -> RateLimitLayer<A, S, F, Options<C, R, X, E, D, Z, N2, W>> {
        self.with(|options| options.enforce(enforce))
    }
}
