//! A quota where an algorithm belongs.

use tollgate::{Quota, RateLimitLayer, key::Global, store::LocalStore, algorithm::TokenBucket};

fn main() {
    let store: LocalStore<TokenBucket, ()> = LocalStore::new();
    let limit = RateLimitLayer::new(Quota::per_second(5), store, Global);
    let _: axum::Router = axum::Router::new().layer(limit);
}
