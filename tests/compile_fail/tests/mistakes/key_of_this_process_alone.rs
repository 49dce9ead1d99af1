//! A key for Redis that is not a `PortableKey`.

use std::convert::Infallible;

use axum::{Router, extract::Request, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::from_fn, store::RedisStore};

#[derive(Clone, PartialEq, Eq, Hash)]
struct User(String);

fn app(redis: fred::clients::Client) -> Router {
    let by_user = from_fn(|request: &Request| {
        Ok::<_, Infallible>(Some(User(request.uri().path().to_owned())))
    });
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        RedisStore::new(redis),
        by_user,
    );
    Router::new().route("/", get(async || "hello")).layer(limit)
}

fn main() {
    let _ = app;
}
