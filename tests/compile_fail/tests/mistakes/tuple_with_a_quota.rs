//! A tuple of algorithms, one of which is a quota.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};

fn main() {
    let limits = (
        TokenBucket::new(Quota::per_second(20)),
        Quota::per_day(1_000),
    );
    let limit = RateLimitLayer::new(limits, LocalStore::new(), PeerIp::new());
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
