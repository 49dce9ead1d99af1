//! A limiter for outages with an observer of its own: the layer's observer sees its decisions.

use axum::{Router, routing::get};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::TokenBucket,
    key::PeerIp,
    observe::Trace,
    store::LocalStore,
};

fn main() {
    let smaller = TokenBucket::new(Quota::per_second(5));
    let here = RateLimiter::new(smaller, LocalStore::new()).observe(Trace::new());
    let quota = TokenBucket::new(Quota::per_second(20));
    let limit = RateLimitLayer::new(quota, LocalStore::new(), PeerIp::new()).on_store_error(here);
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
