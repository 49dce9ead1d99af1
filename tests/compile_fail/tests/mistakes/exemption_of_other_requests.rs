//! An exemption for another type of request than the service's.

use axum::{Router, routing::get};
use http::Request;
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp, store::LocalStore};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        PeerIp::new(),
    )
    .exempt(|request: &Request<()>| request.uri().path() == "/health");
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
