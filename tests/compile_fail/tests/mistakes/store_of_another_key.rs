//! One store for two types of keys: a layer's addresses, and a limiter's names.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer, RateLimiter};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};

fn main() {
    let bucket = TokenBucket::new(Quota::per_second(20));
    let store = LocalStore::new();
    let limiter = RateLimiter::new(bucket.clone(), store.clone());
    let _ = limiter.check("bob");
    let limit = RateLimitLayer::new(bucket, store, PeerIp::new());
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
