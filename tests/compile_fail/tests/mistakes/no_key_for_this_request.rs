//! A key extractor for HTTP requests, around a service of numbers.

use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, response::AsError, store::LocalStore};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

/// What a server asks for.
fn serve(_: impl Service<u32>) {}

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    )
    .respond_with(AsError::new());
    let echo = service_fn(|number: u32| async move { Ok::<u32, BoxError>(number) });
    let service = ServiceBuilder::new().layer(limit).service(echo);
    serve(service);
}
