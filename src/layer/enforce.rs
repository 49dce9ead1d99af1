//! The setter that turns enforcement on and off.

use super::{Options, RateLimitLayer};

#[expect(clippy::type_complexity, reason = "each option has a type of its own")]
impl<A, S, F, C, R, X, E, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N, W>> {
    /// Enforces the limit only if this is `true`. If it is `false`, the request is decided and
    /// counted, but always passes: a dry run of the limit, with its costs, plans and keys.
    ///
    /// It is a `bool`, or a closure over the request and its key. The closure is called for each
    /// request, so the value that it reads (an `AtomicBool`, a percentage of the callers) can
    /// change without a restart. It must name the types of its arguments: `|request: &Request, key:
    /// Option<&IpAddr>| …`. [`percentile`](crate::key::percentile) selects the same callers in
    /// every process.
    ///
    /// The caller of a request that is not enforced does not notice the limit:
    ///
    /// - Its response has no rate-limit fields, whether it was admitted or would have been refused.
    /// - It goes on at once if it would have to wait for its turn; the turn stays taken.
    /// - It passes uncounted if its key is rejected; the closure gets no key then.
    /// - It passes uncounted if the store fails, whatever the kind of the error.
    ///
    /// A handler does see the decision: with [`expose_decision`](Self::expose_decision) a request
    /// that would have been refused has a decision whose
    /// [`is_admitted`](crate::Decision::is_admitted) is `false`. Such a request is charged nothing,
    /// and has no [`Hold`](crate::Hold): extract an `Option` of it. The `tracing` event
    /// `layer.would_refuse` is logged once for each policy that would refuse.
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
    ) -> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N2, W>> {
        self.with(|(c, r, x, e, z, _, w)| (c, r, x, e, z, enforce, w))
    }
}
