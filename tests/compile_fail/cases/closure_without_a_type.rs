//! A closure that does not name the request that it looks at.

use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::Global, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_second(5)), LocalStore::new(), Global)
        .exempt(|request| request.uri().path() == "/health");
    let _: axum::Router = axum::Router::new().layer(limit);
}
