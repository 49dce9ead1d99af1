//! What else a layer can be told, beside its algorithm, store and key.

use std::sync::Arc;

use crate::response::body_end::{End, SpentAtEnd};

use super::{
    RateLimitLayer,
    options::{
        WithCost, WithEnforcement, WithExemptions, WithFallback, WithObserver, WithSpent,
        WithSpentAtEnd,
    },
    waiting::max_waiting,
};

impl<A, S, F, R, O> RateLimitLayer<A, S, F, R, O> {
    /// The layer with this around its options.
    fn with<O2>(self, around: impl FnOnce(O) -> O2) -> RateLimitLayer<A, S, F, R, O2> {
        RateLimitLayer {
            limiter: self.limiter,
            key: self.key,
            respond: self.respond,
            options: around(self.options),
            exposes_decision: self.exposes_decision,
            max_waiting: self.max_waiting,
        }
    }

    /// Charges each request this much: a number, a closure over the request, or a table by route.
    ///
    /// See [`Cost`](crate::Cost). A request of cost 0 is admitted and charged nothing. A closure
    /// must name its argument's type: `|request: &Request| …`.
    pub fn cost<C>(self, cost: C) -> RateLimitLayer<A, S, F, R, WithCost<C, O>> {
        self.with(|others| WithCost { cost, others })
    }

    /// Sets the answer to refused requests, and the fields in the responses of admitted ones.
    ///
    /// See [`response`](crate::response): [`Http`](crate::response::Http) by default,
    /// [`Grpc`](crate::response::Grpc), [`AsError`](crate::response::AsError), or your own.
    pub fn respond_with<R2>(self, respond: R2) -> RateLimitLayer<A, S, F, R2, O> {
        RateLimitLayer {
            limiter: self.limiter,
            key: self.key,
            respond,
            options: self.options,
            exposes_decision: self.exposes_decision,
            max_waiting: self.max_waiting,
        }
    }

    /// Lets a request pass without a key, a count or a header if this closure returns `true`.
    ///
    /// For health checks, internal addresses, the operator's own keys. The closure must name its
    /// argument's type: `|request: &Request| …`.
    ///
    /// # Example: the health check is never refused
    ///
    /// ```
    /// use axum::extract::Request;
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::FixedWindow, key::Global, store::LocalStore};
    /// # use tower::{Layer, Service, ServiceExt};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let nothing = FixedWindow::new(Quota::per_day(0));
    /// let limit = RateLimitLayer::new(nothing, LocalStore::new(), Global)
    ///     .exempt(|request: &Request| request.uri().path() == "/health");
    /// # let app = axum::Router::new()
    /// #     .route("/{*path}", axum::routing::get(|| async {}))
    /// #     .layer(limit);
    /// # for (path, status) in [("/health", 200), ("/other", 429)] {
    /// #     let request = Request::get(path).body(axum::body::Body::empty()).unwrap();
    /// #     assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status);
    /// # }
    /// # });
    /// ```
    pub fn exempt<Request, X>(self, exempt: X) -> RateLimitLayer<A, S, F, R, WithExemptions<X, O>>
    where
        X: Fn(&Request) -> bool,
    {
        self.with(|others| WithExemptions { exempt, others })
    }

    /// Sets what happens to a request while the store is
    /// [unavailable](crate::StoreErrorKind::Unavailable). By default it is refused with 503 (gRPC:
    /// `UNAVAILABLE`).
    ///
    /// - An [`OnStoreError`](crate::OnStoreError), or a closure `|error: &StoreError| …` that
    ///   returns one. There is an example of each.
    /// - A [`RateLimiter`](crate::RateLimiter) that counts in this process, for example over a
    ///   [`LocalStore`](crate::store::LocalStore). Its limit decides, and the response has its
    ///   fields. The decision says that it [is degraded](crate::Decision::is_degraded).
    ///
    /// Such a limiter can have any algorithm, tuple or plans, for the layer's own keys. It is also
    /// charged what the store admits, as far as that fits. So a store that fails again and again
    /// never grants a fresh burst, and nobody owes the limiter more than its limit.
    ///
    /// Its charges are final: it takes no [settled](crate::algorithm::Settled) and no
    /// [in-flight](crate::algorithm::InFlight) algorithm, and a turn in its queue is not given
    /// back. It has no [observer](crate::RateLimiter::observe) of its own: the layer's observer
    /// sees its decisions.
    ///
    /// **Bound**: in any span, the units that the layer's limit admits, plus those that the local
    /// limit admits in each process that ran in the span, plus those that the store has lost, for
    /// example because it came back empty. Nothing is copied back to the store.
    pub fn on_store_error<E>(
        self,
        on_store_error: E,
    ) -> RateLimitLayer<A, S, F, R, WithFallback<E, O>> {
        self.with(|others| WithFallback {
            on_store_error,
            others,
        })
    }

    /// Settles a request by the head of its response: charges what the closure returns, and frees
    /// the rest of the cost. For an algorithm that is [settled](crate::algorithm::Settled): with
    /// another one a program that calls a service of the layer does not build.
    ///
    /// The cost is held while the inner service works. The closure sees only responses: if the
    /// inner service fails, or the caller hangs up, the whole cost is charged. The closure may
    /// return more than was held. The rate-limit fields show what is left after it. Without this
    /// setter a request carries its [`Hold`](crate::Hold) in its extensions, for the handler to
    /// settle. The closure must name its argument's type.
    ///
    /// # Example: only wrong passwords count
    ///
    /// ```
    /// use axum::{Router, http::StatusCode, response::Response, routing::post};
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::SlidingLog, key::Global, store::LocalStore};
    /// # use tower::ServiceExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let failures = SlidingLog::new(Quota::per_minute(1)).settled();
    /// let limit = RateLimitLayer::new(failures, LocalStore::new(), Global)
    ///     .settle(|response: &Response| u32::from(response.status() == 401));
    /// let app: Router = Router::new()
    ///     .route("/right", post(|| async {}))
    ///     .route("/wrong", post(|| async { StatusCode::UNAUTHORIZED }))
    ///     .layer(limit);
    /// # for (path, status) in [("/right", 200), ("/right", 200), ("/wrong", 401), ("/right", 429)] {
    /// #     let request = axum::http::Request::post(path).body(axum::body::Body::empty()).unwrap();
    /// #     assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status, "{path}");
    /// # }
    /// # });
    /// ```
    ///
    /// Without `.settled()` (`cargo check` lets it pass, `cargo build` does not):
    ///
    /// ```compile_fail,E0080
    /// use http::{Request, Response};
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::SlidingLog, key::Global, store::LocalStore};
    /// use tower::{Layer, Service, service_fn};
    ///
    /// let limit = RateLimitLayer::new(SlidingLog::new(Quota::per_minute(1)), LocalStore::new(), Global)
    ///     .settle(|_: &Response<String>| 1);
    /// let inner = service_fn(async |_: Request<()>| Ok::<_, ()>(Response::new(String::new())));
    /// let _ = limit.layer(inner).call(Request::new(()));
    /// ```
    pub fn settle<Response, Z>(self, spent: Z) -> RateLimitLayer<A, S, F, R, WithSpent<Z, O>>
    where
        Z: Fn(&Response) -> u32,
    {
        self.with(|others| WithSpent { spent, others })
    }

    /// Settles a request when the body of its response has ended, or was dropped because the caller
    /// hung up: by the bytes that were sent, the duration, or the trailers. For an algorithm that
    /// is [settled](crate::algorithm::Settled), as with [`settle`](Self::settle).
    ///
    /// The cost is held until then. If the inner service fails, the closure is called too, and can
    /// [ask](crate::End::service_failed) for that: a closure that counts bytes then charges
    /// nothing. If the request is dropped before there is a response, the whole cost is charged.
    /// The rate-limit fields show what was left while the cost was held.
    ///
    /// The type of the body stays as it is: axum's, tonic's and a boxed body are boxed once more,
    /// and one that is whole in memory (`Full`, `String`) counts as sent when the response is
    /// there. [`FromBytes::keeping`](crate::response::FromBytes::keeping) is for a body of your
    /// own. A responder that answers with errors, as [`AsError`](crate::response::AsError), sees no
    /// body: then all that is held is charged when the service has answered.
    ///
    /// # Example: a thousand KiB an hour
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use tollgate::{End, Quota, RateLimitLayer};
    /// use tollgate::{algorithm::TokenBucket, key::Global, store::LocalStore};
    /// # use tower::ServiceExt;
    /// # use http_body_util::BodyExt;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let kib = TokenBucket::new(Quota::per_hour(1_000)).settled();
    /// let limit = RateLimitLayer::new(kib, LocalStore::new(), Global)
    ///     .cost(100)
    ///     .settle_at_end(|end: &End| end.kib());
    /// let app: Router = Router::new()
    ///     .route("/", get(|| async { vec![0; 300 * 1_024] }))
    ///     .layer(limit);
    /// # for (left, status) in [(900, 200), (600, 200), (300, 200), (0, 200), (0, 429)] {
    /// #     let request = axum::http::Request::get("/").body(axum::body::Body::empty()).unwrap();
    /// #     let response = app.clone().oneshot(request).await.unwrap();
    /// #     assert_eq!(response.status(), status);
    /// #     let field = response.headers()["ratelimit"].to_str().unwrap().to_owned();
    /// #     assert!(field.contains(&format!(";r={left};")), "{field}");
    /// #     response.into_body().collect().await.unwrap();
    /// # }
    /// # });
    /// ```
    pub fn settle_at_end(
        self,
        spent: impl Fn(&End) -> u32 + Send + Sync + 'static,
    ) -> RateLimitLayer<A, S, F, R, WithSpentAtEnd<O>> {
        let spent = Arc::new(SpentAtEnd::new(spent));
        self.with(|others| WithSpentAtEnd { spent, others })
    }

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
    /// [`.shadow()`](crate::algorithm::TokenBucket::shadow) is a dry run of one limit beside others
    /// that are enforced.
    ///
    /// A handler does see the decision: with [`expose_decision`](Self::expose_decision) a request
    /// that would have been refused has a decision whose
    /// [`is_admitted`](crate::Decision::is_admitted) is `false`. Such a request is charged nothing,
    /// and has no [`Hold`](crate::Hold): extract an `Option` of it. An
    /// [observer](Self::observe) sees who would be refused.
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
    pub fn enforce<N>(self, enforce: N) -> RateLimitLayer<A, S, F, R, WithEnforcement<N, O>> {
        self.with(|others| WithEnforcement { enforce, others })
    }

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
    pub fn observe<W>(self, observer: W) -> RateLimitLayer<A, S, F, R, WithObserver<W, O>> {
        self.with(|others| WithObserver { observer, others })
    }

    /// Lets at most `requests` requests wait at the same time, of all keys together. One more is
    /// refused with 429 (gRPC: `RESOURCE_EXHAUSTED`).
    ///
    /// Requests wait if the algorithm [delays](crate::Decision::delay) them, and each waiting
    /// request takes memory. By default only the room of each key's queue bounds their number.
    /// Clones of the layer share this maximum. Requests that wait for a remote store are not
    /// counted: the store bounds them itself.
    ///
    /// The `Retry-After` of such a refusal is the time of the request's turn: a request that comes
    /// then is admitted without waiting. The turn is [given
    /// back](crate::algorithm::LeakyBucketQueue). In a tuple the other members stay charged, as
    /// when a waiting request is dropped: they had admitted it.
    ///
    /// # Example: one waits, the next is refused
    ///
    /// ```
    /// use std::{convert::Infallible, time::Duration};
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::Gcra, key::from_fn, response::AsError, store::LocalStore};
    /// use tower::{Layer, Service, service_fn};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let gcra = Gcra::new(Quota::per_second(20)).burst(1);
    /// let user = from_fn(|user: &&str| Ok::<_, Infallible>(Some(user.to_string())));
    /// let limit = RateLimitLayer::new(
    ///     gcra.wait_at_most(Duration::from_secs(5)),
    ///     LocalStore::new(),
    ///     user,
    /// );
    /// let limit = limit.respond_with(AsError).max_waiting(1);
    /// let mut service = limit.layer(service_fn(async |user| Ok::<&str, Infallible>(user)));
    ///
    /// let at_once = [service.call("ann"), service.call("bob")];
    /// let (waits, refused) = (service.call("ann"), service.call("bob"));
    /// assert!(refused.await.is_err());
    /// assert_eq!(waits.await.unwrap(), "ann");
    /// # let _ = at_once;
    /// # });
    /// ```
    #[must_use]
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.max_waiting = max_waiting(requests);
        self
    }

    /// Puts the [`Decision`](crate::Decision) about an admitted request into its extensions, for
    /// handlers and inner layers.
    ///
    /// It costs an allocation and about as much time as the decision itself, so it is only done
    /// when asked for.
    #[must_use]
    pub fn expose_decision(mut self) -> Self {
        self.exposes_decision = true;
        self
    }
}
