//! A closure that does not name its argument's type.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    )
    .cost(|request| if request.method() == "POST" { 5 } else { 1 });
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
