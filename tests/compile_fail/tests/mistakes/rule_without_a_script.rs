//! A user's algorithm without a script, over Redis.

use axum::{Router, routing::get};
use tollgate::{RateLimitLayer, algorithm::KeyLimit, key::PeerIp, store::RedisStore};

fn app<Allowance: KeyLimit>(allowance: Allowance, redis: fred::clients::Client) -> Router {
    let limit = RateLimitLayer::new(allowance, RedisStore::new(redis), PeerIp::new());
    Router::new().route("/", get(async || "hello")).layer(limit)
}

fn main() {
    let _ = app::<tollgate::algorithm::TokenBucket>;
}
