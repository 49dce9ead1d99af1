//! What a setter is given.

use std::net::IpAddr;

use axum::{Router, routing::get};
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::TokenBucket,
    key::PeerIp,
    observe::{Event, Observe},
    store::LocalStore,
};

fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn limit() -> RateLimitLayer<TokenBucket, LocalStore<TokenBucket, IpAddr>, PeerIp> {
    let bucket = TokenBucket::new(Quota::per_second(20));
    RateLimitLayer::new(bucket, LocalStore::new(), PeerIp::new())
}

fn cost_of_the_wrong_number() -> Router {
    app().layer(limit().cost(2.5))
}

fn closure_without_types() -> Router {
    app().layer(limit().cost(|request| if request.method() == "POST" { 5 } else { 1 }))
}

fn enforced_for_a_number() -> Router {
    app().layer(limit().enforce(10))
}

fn store_error_as_a_yes() -> Router {
    app().layer(limit().on_store_error(true))
}

#[derive(Clone)]
struct PrintKeys;

impl Observe<String> for PrintKeys {
    fn observe(&self, event: &Event<'_, String>) {
        println!("{:?}", event.key());
    }
}

fn observer_of_other_keys() -> Router {
    app().layer(limit().observe(PrintKeys))
}

fn main() {}
