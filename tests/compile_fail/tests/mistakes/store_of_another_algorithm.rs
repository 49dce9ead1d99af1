//! One store for two algorithms.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{
    algorithm::{FixedWindow, TokenBucket},
    key::PeerIp,
    store::LocalStore,
};

fn main() {
    let store = LocalStore::new();
    let second = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        store.clone(),
        PeerIp::new(),
    );
    let day = RateLimitLayer::new(
        FixedWindow::new(Quota::per_day(1_000)),
        store,
        PeerIp::new(),
    );
    let _: Router = Router::new()
        .route("/", get(async || "hello"))
        .layer(second)
        .layer(day);
}
