//! A type that is not a store.

use std::{collections::HashMap, net::IpAddr};

use axum::{Router, routing::get};
use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::PeerIp};

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        HashMap::<IpAddr, u64>::new(),
        PeerIp::new(),
    );
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
