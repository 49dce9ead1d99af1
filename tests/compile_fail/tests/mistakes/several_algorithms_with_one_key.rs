//! An algorithm for each of two keys, but only one key.

use axum::{Router, routing::get};
use tollgate::{EachOf, Quota, RateLimitLayer};
use tollgate::{
    algorithm::{FixedWindow, TokenBucket},
    key::PeerIp,
    store::LocalStore,
};

fn main() {
    let limits = EachOf((
        TokenBucket::new(Quota::per_second(20)).named("address"),
        FixedWindow::new(Quota::per_day(1_000)).named("account"),
    ));
    let limit = RateLimitLayer::new(limits, LocalStore::new(), PeerIp::new());
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
