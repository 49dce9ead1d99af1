//! What stands where a key belongs.

use std::convert::Infallible;

use axum::{Router, extract::Request, routing::get};
use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::from_fn, store::LocalStore};

fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn bucket() -> TokenBucket {
    TokenBucket::new(Quota::per_second(20))
}

fn closure_for_a_key() -> Router {
    let by_path = |request: &Request| request.uri().path().to_owned();
    app().layer(RateLimitLayer::new(bucket(), LocalStore::new(), by_path))
}

fn key_without_a_rejection() -> Router {
    let by_path = from_fn(|request: &Request| Ok(Some(request.uri().path().to_owned())));
    app().layer(RateLimitLayer::new(bucket(), LocalStore::new(), by_path))
}

#[derive(Clone)]
struct User(String);

fn key_not_hashable() -> Router {
    let by_user = from_fn(|request: &Request| {
        Ok::<_, Infallible>(Some(User(request.uri().path().to_owned())))
    });
    app().layer(RateLimitLayer::new(bucket(), LocalStore::new(), by_user))
}

fn main() {}
