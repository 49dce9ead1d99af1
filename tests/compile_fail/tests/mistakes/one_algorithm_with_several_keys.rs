//! One algorithm, and two keys that need one each.

use axum::{Router, routing::get};
use tollgate::{EachOf, Quota, RateLimitLayer};
use tollgate::{
    algorithm::TokenBucket,
    key::{Header, PeerIp},
    store::LocalStore,
};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        EachOf((PeerIp::new(), Header::new("x-account"))),
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
