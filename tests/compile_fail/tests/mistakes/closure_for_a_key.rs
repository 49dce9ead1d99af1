//! A closure as a key, without `from_fn`.

use axum::{Router, extract::Request, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        |request: &Request| request.uri().path().to_owned(),
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
