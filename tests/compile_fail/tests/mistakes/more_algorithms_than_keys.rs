//! Three algorithms, and two keys.

use axum::{Router, routing::get};
use tollgate::{EachOf, Quota, RateLimitLayer};
use tollgate::{
    algorithm::TokenBucket,
    key::{Header, PeerIp},
    store::LocalStore,
};

fn main() {
    let bucket = TokenBucket::new(Quota::per_second(20));
    let limit = RateLimitLayer::new(
        EachOf((
            bucket.clone().named("address"),
            bucket.clone().named("account"),
            bucket.named("tenant"),
        )),
        LocalStore::new(),
        EachOf((PeerIp::new(), Header::new("x-account"))),
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
