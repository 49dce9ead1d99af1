//! The layer: an algorithm, a store, a key, and its options.
//!
//! A request passes through these files, in this order:
//!
//! | what happens | file |
//! |---|---|
//! | the service is called; it answers, goes on or waits | `service` |
//! | its key, cost and limit are found, the store is asked | `decide`, by the trait in `layer_for` |
//! | the store is unavailable: a limiter here decides, or nobody | `fallback` |
//! | a request that is refused or rejected is answered | `decide` |
//! | a request that has to wait does so | `waiting` |
//! | the response comes: its hold is settled, fields are added | `future`, `decide` |
//! | the body ends: what it has spent is settled | `response/body_end` |
//!
//! The setters are in `setters`, what they set in `options`.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tower_layer::Layer;

use crate::{limiter::RateLimiter, response::Http, store::LocalStore};

use self::{layer_for::LayerFor, waiting::max_waiting};

mod decide;
mod fallback;
mod future;
mod layer_for;
pub mod options;
mod service;
mod setters;
mod waiting;

pub use future::ResponseFuture;
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
/// `.layer(limit.clone())` and `.layer(limit.cost(5))`. One request that passes two such layers is
/// charged twice: [name](crate::algorithm::TokenBucket::named) the limit of one of them.
///
/// # Its type
///
/// It is a `RateLimitLayer<Algo, Store, KeyFn>` until more is set. What answers is the fourth
/// parameter. Each other setter that changes the type puts one of the [`options`](crate::options)
/// around the fifth.
///
/// # What it requires of the inner service
///
/// The inner service must be `Clone` (axum's and tonic's are). A request that has to wait takes the
/// ready service with it, and a clone serves the next request. A request waits for a remote store,
/// or for its turn in a [queue](crate::algorithm::LeakyBucket::queue).
///
/// The body of its responses must be axum's, tonic's or another that can be [made from
/// bytes](crate::response::FromBytes): in a `ServiceBuilder`, a layer that wraps the
/// body, such as `tower-http`'s `TraceLayer`, goes outside of this one.
///
/// For a service without HTTP set another answer, such as
/// [`.respond_with(AsError)`](Self::respond_with).
///
/// # What is logged
///
/// These `tracing` events have level `warn`, and each is logged once for each route or header:
///
/// | event | target | logged when |
/// |---|---|---|
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
// Elsewhere in `layer` these parameters have one letter each: A, S, F, R (who answers) and O.
#[derive(Debug, Clone)]
pub struct RateLimitLayer<Algo, Store, KeyFn, Resp = Http, Opts = ()> {
    limiter: RateLimiter<Algo, Store>,
    key: KeyFn,
    respond: Resp,
    options: Opts,
    exposes_decision: bool,
    max_waiting: Arc<Semaphore>,
}

/// Short for a layer over a [`LocalStore`], to write its type in a signature.
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
pub type LocalRateLimitLayer<Algo, Key, KeyFn, Resp = Http, Opts = ()> =
    RateLimitLayer<Algo, LocalStore<Algo, Key>, KeyFn, Resp, Opts>;

impl<A, S, F> RateLimitLayer<A, S, F> {
    /// Limits requests by this algorithm, with the counts in this store, for each key that this
    /// extractor finds.
    pub fn new(algorithm: A, store: S, key: F) -> Self {
        Self {
            limiter: RateLimiter::new(algorithm, store),
            key,
            respond: Http::default(),
            options: (),
            exposes_decision: false,
            max_waiting: max_waiting(usize::MAX),
        }
    }
}

impl<A, S, F, R, O> RateLimitLayer<A, S, F, R, O> {
    /// The limiter that decides about this layer's requests, for work that is not a request: the
    /// same algorithm over the same store.
    ///
    /// A clone of it shares the layer's buckets, if it uses the keys that the layer's extractor
    /// makes. The layer's costs, exemptions, answers and observer do not apply to it: give the
    /// clone an observer [of its own](RateLimiter::observe). If
    /// [`by_request`](crate::choice::by_request) chooses the limit, it cannot be asked without a
    /// request: make a limiter of one plan.
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

impl<Svc, A, S, F, R, O> Layer<Svc> for RateLimitLayer<A, S, F, R, O>
where
    Svc: InnerService,
    Self: Clone,
{
    type Service = RateLimit<Svc, A, S, F, R, O>;

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
