//! A quota, or a type of one's own that is not an `Algorithm`, where an algorithm belongs.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{key::PeerIp, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(Quota::per_second(20), LocalStore::new(), PeerIp::new());
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
