//! The layer: an algorithm, a store, a key, and its options.
//!
//! A request passes through these files, in this order:
//!
//! | what happens | file |
//! |---|---|
//! | the service is called; it answers, goes on or waits | `service` |
//! | its key, cost and limit are found, the store is asked | `decide`, by the trait in `layer_for` |
//! | the store is unavailable: a limiter here decides, or nobody | `fallback` |
//! | a request that is refused or rejected is answered | `decide`, which logs in `warnings` |
//! | a request that has to wait does so | `waiting` |
//! | the response comes: its hold is settled, fields are added | `future`, `decide` |
//! | the body ends: what it has spent is settled | `response/body_end` |
//!
//! The setters are here, in `enforce` and in `observe`, which calls the observer too; `options` has
//! what they set, and a legend of the one-letter type parameters.

use std::sync::Arc;

use tower_layer::Layer;

use crate::{limiter::RateLimiter, response::body_end::End, store::LocalStore};

use self::{
    fallback::Fallback,
    layer_for::LayerFor,
    options::{Enforce, Exempt, Settle},
    waiting::max_waiting,
};

mod decide;
mod enforce;
mod fallback;
mod future;
mod layer_for;
mod observe;
mod options;
mod service;
mod waiting;
mod warnings;

pub use future::ResponseFuture;
pub use options::{Options, SettledAtEnd};
pub use service::{LocalRateLimit, RateLimit};

/// Lets a request through to the inner service, or answers it with 429 (gRPC:
/// `RESOURCE_EXHAUSTED`).
///
/// The [algorithm](crate::algorithm) says how much, the [store](crate::store) keeps the counts, the
/// [key](crate::key) says which requests are counted together. Each is changed without touching the
/// others. The rest has defaults: every request costs 1, refusals are answered in
/// [HTTP](crate::response::Http) (or in gRPC, if the request is gRPC), nothing is exempt.
///
/// Clones of a layer share its buckets. So two routes can share one quota with different costs:
/// `.layer(limit.clone())` and `.layer(limit.cost(5))`.
///
/// # What it requires of the inner service
///
/// The inner service must be `Clone` (axum's and tonic's are). A request that has to wait takes the
/// ready service with it, and a clone serves the next request. A request waits for a remote store,
/// or for its turn in a [queue](crate::algorithm::LeakyBucket::queue).
///
/// For a service without HTTP set another answer, such as
/// [`.respond_with(AsError)`](Self::respond_with).
///
/// # What is logged
///
/// These `tracing` events have level `warn`, and each is logged once for each policy, route or
/// header:
///
/// | event | target | logged when |
/// |---|---|---|
/// | `layer.nothing_let_through` | `tollgate::layer` | a limit with a burst or a capacity of 0 refuses a request |
/// | `layer.would_refuse` | `tollgate::layer` | a limit that is not [enforced](Self::enforce) would have refused a request |
/// | `response.duplicate_policy_name` | `tollgate::response` | a response describes two policies with the same name, as of two layers with equal, unnamed policies |
/// | `cost.route_not_matched` | `tollgate::cost` | no request has matched a route of `RouteCosts` |
/// | `rules.route_not_matched` | `tollgate::rules` | no request has matched a route in a file of rules |
/// | `key.header_missing` | `tollgate::key` | a request lacks the header that is its key |
///
/// # Example: twenty a second with bursts of forty, for each peer address
///
/// ```
/// use std::net::SocketAddr;
/// use axum::{Router, body::Body, extract::ConnectInfo, http::Request, routing::get};
/// use tollgate::{Quota, RateLimitLayer};
/// use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};
/// use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limit = RateLimitLayer::new(
///     TokenBucket::new(Quota::per_second(20)).burst(40),
///     LocalStore::new(),
///     PeerIp::new(),
/// );
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
///
/// let peer = ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711)));
/// let request = Request::get("/").extension(peer).body(Body::empty()).unwrap();
/// let response = app.oneshot(request).await.unwrap();
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["ratelimit"], r#""token-bucket-20-1s-b40";r=39;t=1"#);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct RateLimitLayer<Algo, Store, KeyFn, Opts = Options> {
    limiter: RateLimiter<Algo, Store>,
    key: KeyFn,
    options: Opts,
}

/// A layer with a [`LocalStore`], whose type would name the algorithm twice.
///
/// # Example: a layer in a function's signature
///
/// ```
/// use std::net::IpAddr;
/// use tollgate::{LocalRateLimitLayer, Quota, RateLimitLayer};
/// use tollgate::{algorithm::Gcra, key::PeerIp, store::LocalStore};
///
/// fn limit() -> LocalRateLimitLayer<Gcra, IpAddr, PeerIp> {
///     RateLimitLayer::new(Gcra::new(Quota::per_second(5)), LocalStore::new(), PeerIp::new())
/// }
/// # let _ = limit();
/// ```
pub type LocalRateLimitLayer<Algo, Key, KeyFn, Opts = Options> =
    RateLimitLayer<Algo, LocalStore<Algo, Key>, KeyFn, Opts>;

impl<A, S, F> RateLimitLayer<A, S, F> {
    /// Limits requests by this algorithm, with the counts in this store, for each key that this
    /// extractor finds.
    pub fn new(algorithm: A, store: S, key: F) -> Self {
        Self {
            limiter: RateLimiter::new(algorithm, store),
            key,
            options: Options::default(),
        }
    }
}

impl<A, S, F, O> RateLimitLayer<A, S, F, O> {
    /// The limiter that decides about this layer's requests, for work that is not a request: the
    /// same algorithm over the same store.
    ///
    /// A clone of it shares the layer's buckets, if it uses the keys that the layer's extractor
    /// makes. The layer's costs, exemptions, answers and observer do not apply to it: give the
    /// clone an observer [of its own](RateLimiter::observe).
    ///
    /// # Example: a job that is charged to the caller's quota
    ///
    /// ```
    /// use http::Request;
    /// use tollgate::{Quota, RateLimitLayer};
    /// use tollgate::{algorithm::FixedWindow, key::from_fn, store::LocalStore};
    /// # use std::convert::Infallible;
    /// # use http::Response;
    /// # use tower::{Layer, Service, ServiceExt};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let by_path = from_fn(|request: &Request<String>| {
    ///     Ok::<_, Infallible>(Some(request.uri().path().to_owned()))
    /// });
    /// let daily = FixedWindow::new(Quota::per_day(5));
    /// let limit = RateLimitLayer::new(daily, LocalStore::new(), by_path);
    /// let limiter = limit.limiter().clone();
    /// assert!(limiter.check_cost("/bob", 4).now().is_admitted());
    ///
    /// # let inner = tower::service_fn(|_| async { Ok::<_, Infallible>(Response::new(String::new())) });
    /// let service = limit.layer(inner);
    /// let request = || Request::get("/bob").body(String::new()).unwrap();
    /// assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), 200);
    /// assert_eq!(service.oneshot(request()).await.unwrap().status(), 429);
    /// # });
    /// ```
    pub const fn limiter(&self) -> &RateLimiter<A, S> {
        &self.limiter
    }
}

#[expect(clippy::type_complexity, reason = "each option has a type of its own")]
impl<A, S, F, C, R, X, E, Z, N, W> RateLimitLayer<A, S, F, Options<C, R, X, E, Z, N, W>> {
    /// Charges each request this much: a number, a closure over the request, or a table by route.
    ///
    /// See [`Cost`](crate::Cost). A request of cost 0 is admitted and charged nothing. A closure
    /// must name its argument's type: `|request: &Request| …`.
    pub fn cost<C2>(self, cost: C2) -> RateLimitLayer<A, S, F, Options<C2, R, X, E, Z, N, W>> {
        self.with(|(_, r, x, e, z, n, w)| (cost, r, x, e, z, n, w))
    }

    /// Sets the answer to refused requests, and the fields in the responses of admitted ones.
    ///
    /// See [`response`](crate::response): [`Http`](crate::response::Http) by default,
    /// [`Grpc`](crate::response::Grpc), [`AsError`](crate::response::AsError), or your own.
    pub fn respond_with<R2>(
        self,
        respond: R2,
    ) -> RateLimitLayer<A, S, F, Options<C, R2, X, E, Z, N, W>> {
        self.with(|(c, _, x, e, z, n, w)| (c, respond, x, e, z, n, w))
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
    pub fn exempt<Request, X2>(
        self,
        exempt: X2,
    ) -> RateLimitLayer<A, S, F, Options<C, R, X2, E, Z, N, W>>
    where
        X2: Fn(&Request) -> bool,
    {
        self.with(|(c, r, _, e, z, n, w)| (c, r, exempt, e, z, n, w))
    }

    /// Sets what happens to a request while the store is
    /// [unavailable](crate::StoreErrorKind::Unavailable). By default it is refused with 503 (gRPC:
    /// `UNAVAILABLE`).
    ///
    /// - An [`OnStoreError`](crate::OnStoreError), or a closure `|error: &StoreError| …` that
    ///   returns one. There is an example of each.
    /// - A [`RateLimiter`] that counts in this process, for example over a [`LocalStore`]. Its
    ///   limit decides, and the response has its fields. The decision says that it [is
    ///   degraded](crate::Decision::is_degraded).
    ///
    /// Such a limiter can have any algorithm, tuple or plans, for the layer's own keys. It is also
    /// charged what the store admits, as far as that fits. So a store that fails again and again
    /// never grants a fresh burst, and nobody owes the limiter more than its limit.
    ///
    /// Its charges are final: it takes no [settled](crate::algorithm::Settled) and no
    /// [in-flight](crate::algorithm::InFlight) algorithm, and a turn in its queue is not given
    /// back. It has no [observer](RateLimiter::observe) of its own: the layer's observer sees its
    /// decisions.
    ///
    /// **Bound**: in any span, the units that the layer's limit admits, plus those that the local
    /// limit admits in each process that ran in the span, plus those that the store has lost, for
    /// example because it came back empty. Nothing is copied back to the store.
    pub fn on_store_error<E2>(
        self,
        on_store_error: E2,
    ) -> RateLimitLayer<A, S, F, Options<C, R, X, E2, Z, N, W>> {
        self.with(|(c, r, x, _, z, n, w)| (c, r, x, on_store_error, z, n, w))
    }

    /// Settles a request by the head of its response: charges what the closure returns, and frees
    /// the rest of the cost. For an algorithm that is [settled](crate::algorithm::Settled).
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
    pub fn settle<Response, Z2>(
        self,
        spent: Z2,
    ) -> RateLimitLayer<A, S, F, Options<C, R, X, E, Z2, N, W>>
    where
        Z2: Fn(&Response) -> u32,
    {
        self.with(|(c, r, x, e, _, n, w)| (c, r, x, e, spent, n, w))
    }

    /// Settles a request when the body of its response has ended, or was dropped because the caller
    /// hung up: by the bytes that were sent, the duration, or the trailers. For an algorithm that
    /// is [settled](crate::algorithm::Settled).
    ///
    /// The cost is held until then. If the inner service fails, the closure is called too, and can
    /// [ask](crate::End::service_failed) for that: a closure that counts bytes then charges
    /// nothing. If the request is dropped before there is a response, the whole cost is charged.
    /// The rate-limit fields show what was left while the cost was held.
    ///
    /// The type of the body stays as it is: axum's, tonic's and a boxed body are boxed once more,
    /// and one that is whole in memory (`Full`, `String`) counts as sent when the response is
    /// there. [`FromBytes::keeping`](crate::response::FromBytes::keeping) is for a body of your
    /// own.
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
    ) -> RateLimitLayer<A, S, F, Options<C, R, X, E, SettledAtEnd, N, W>> {
        self.with(|(c, r, x, e, _, n, w)| (c, r, x, e, SettledAtEnd(Arc::new(spent)), n, w))
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
        self.options.max_waiting = max_waiting(requests);
        self
    }

    /// Puts the [`Decision`](crate::Decision) about an admitted request into its extensions, for
    /// handlers and inner layers.
    ///
    /// It costs an allocation and about as much time as the decision itself, so it is only done
    /// when asked for.
    #[must_use]
    pub fn expose_decision(mut self) -> Self {
        self.options.exposes_decision = true;
        self
    }
}

impl<Svc: InnerService, A: Clone, S: Clone, F: Clone, O: Clone> Layer<Svc>
    for RateLimitLayer<A, S, F, O>
{
    type Service = RateLimit<Svc, A, S, F, O>;

    fn layer(&self, inner: Svc) -> Self::Service {
        RateLimit::new(inner, self.clone())
    }
}

/// A service that can be limited: any that is `Clone`.
///
/// The bound stands where a layer meets a service, so that the compiler's message points at that
/// line and says why.
#[diagnostic::on_unimplemented(
    message = "the inner service `{Self}` must be `Clone` to be limited",
    label = "this inner service is not `Clone`",
    note = "derive or implement `Clone` for it, take `BoxCloneService` instead of `BoxService`, or put a `tower::buffer::Buffer` around it",
    note = "a function that makes a layer says which: `fn limit() -> tollgate::LocalRateLimitLayer<TokenBucket, IpAddr, PeerIp>`, and not `impl Layer<S>`",
    note = "a clone takes its place while the one that was made ready goes with a request that has to wait"
)]
pub(crate) trait InnerService: Clone {}

// Without this the compiler would ask for `Clone`, without saying of which type and why.
#[diagnostic::do_not_recommend]
impl<Svc: Clone> InnerService for Svc {}
