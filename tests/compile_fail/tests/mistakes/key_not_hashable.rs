//! A key that is not `Hash`.

use std::convert::Infallible;

use axum::{Router, extract::Request, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::from_fn, store::LocalStore};

#[derive(Clone)]
struct User(String);

fn main() {
    let by_user = from_fn(|request: &Request| {
        Ok::<_, Infallible>(Some(User(request.uri().path().to_owned())))
    });
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        by_user,
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
