//! A function that promises a layer for any service.

use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};
use tower::Layer;

fn limit<S>() -> impl Layer<S> {
    RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    )
}

fn main() {
    let _ = limit::<tower::util::BoxCloneService<u32, u32, ()>>();
}
