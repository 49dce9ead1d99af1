//! A store that was made for another algorithm.

use tollgate::{Quota, RateLimitLayer, algorithm::{FixedWindow, TokenBucket}, key::Global, store::LocalStore};

fn main() {
    let store: LocalStore<FixedWindow, ()> = LocalStore::new();
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_second(5)), store, Global);
    let _: axum::Router = axum::Router::new().layer(limit);
}
