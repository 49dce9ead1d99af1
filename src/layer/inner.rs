//! What a layer asks of the service inside of it, as soon as it sees it.

/// A service that can be limited: any that is `Clone`.
///
/// It is asked for where a layer meets a service, so that the compiler's message is about that line
/// and says why.
#[diagnostic::on_unimplemented(
    message = "the inner service `{Self}` must be `Clone` to be limited",
    label = "this inner service is not `Clone`",
    note = "derive or implement `Clone` for it, take `BoxCloneService` instead of `BoxService`, or put a `tower::buffer::Buffer` around it",
    note = "a function that makes a layer says which: `fn limit() -> tollgate::LocalRateLimitLayer<TokenBucket, IpAddr, PeerIp>`, and not `impl Layer<S>`",
    note = "a clone takes its place while the one that was made ready goes with a request that has to wait"
)]
pub trait InnerService: Clone {}

// Without this the compiler would ask for `Clone`, and not say of what and why.
#[diagnostic::do_not_recommend]
impl<Svc: Clone> InnerService for Svc {}
