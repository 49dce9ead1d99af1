//! An extractor that knows HTTP requests only, around a service of numbers.

use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::PeerIp, response::AsError, store::LocalStore};
use tower::{Layer, Service, service_fn};

fn serve<S: Service<u32>>(_: S) {}

fn main() {
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_second(5)), LocalStore::new(), PeerIp::new())
        .respond_with(AsError);
    let service = limit.layer(service_fn(|n: u32| async move { Ok::<_, std::io::Error>(n) }));
    serve(service);
}
