//! `AsError` in axum, whose services must not fail.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, response::AsError, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    )
    .respond_with(AsError::new());
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
