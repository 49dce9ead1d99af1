//! A `by_request` closure for another type of request than the service's.

use axum::{Router, routing::get};
use http::Request;
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, choice::by_request, key::PeerIp, store::LocalStore};

fn main() {
    let limits = by_request(|_: &Request<()>| TokenBucket::new(Quota::per_second(20)).named("api"));
    let limit = RateLimitLayer::new(limits, LocalStore::new(), PeerIp::new());
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
