//! A type that is not a key extractor, around an axum router.

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, store::LocalStore};

#[derive(Clone)]
struct ByUser;

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        ByUser,
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
