//! A key closure that never fails, and does not name the type of its rejection.

use axum::{Router, extract::Request, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::from_fn, store::LocalStore};

fn main() {
    let by_path = from_fn(|request: &Request| Ok(Some(request.uri().path().to_owned())));
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        by_path,
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
