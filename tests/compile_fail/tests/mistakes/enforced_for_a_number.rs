//! `.enforce(..)` with a number instead of a closure or a `bool`.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    )
    .enforce(10);
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
