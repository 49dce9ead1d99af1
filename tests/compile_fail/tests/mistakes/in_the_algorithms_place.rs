//! What stands where an algorithm belongs.

use std::time::Duration;

use axum::{Router, routing::get};
use http::Request;
use tollgate::{
    EachOf, Quota, RateLimitLayer,
    algorithm::{FixedWindow, MinInterval, Settled, TokenBucket},
    choice::by_request,
    key::{Header, PeerIp},
    store::LocalStore,
};

fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn bucket() -> TokenBucket {
    TokenBucket::new(Quota::per_second(20)).named("address")
}

fn window() -> FixedWindow {
    FixedWindow::new(Quota::per_day(1_000)).named("account")
}

fn quota_for_an_algorithm() -> Router {
    let limit = RateLimitLayer::new(Quota::per_second(20), LocalStore::new(), PeerIp::new());
    app().layer(limit)
}

fn plan_that_is_a_quota() {
    by_request(
        |request: &Request<()>| match request.headers().get("x-plan") {
            Some(_) => Quota::per_day(1_000),
            None => Quota::per_day(10),
        },
    );
}

fn plans_of_other_requests() -> Router {
    let limits = by_request(|_: &Request<()>| bucket());
    app().layer(RateLimitLayer::new(
        limits,
        LocalStore::new(),
        PeerIp::new(),
    ))
}

fn held_by_a_rule_that_is_not_additive() {
    Settled::new(MinInterval::new(Duration::from_secs(1)));
}

fn one_algorithm_with_several_keys() -> Router {
    let keys = EachOf((PeerIp::new(), Header::new("x-account")));
    app().layer(RateLimitLayer::new(bucket(), LocalStore::new(), keys))
}

fn several_algorithms_with_one_key() -> Router {
    let limits = EachOf((bucket(), window()));
    app().layer(RateLimitLayer::new(
        limits,
        LocalStore::new(),
        PeerIp::new(),
    ))
}

fn store_of_another_algorithm() -> Router {
    let store = LocalStore::new();
    let second = RateLimitLayer::new(bucket(), store.clone(), PeerIp::new());
    let day = RateLimitLayer::new(window(), store, PeerIp::new());
    app().layer(second).layer(day)
}

fn main() {}
