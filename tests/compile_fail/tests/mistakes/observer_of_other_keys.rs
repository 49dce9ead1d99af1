//! An observer of text, for keys that are addresses.

use axum::{Router, routing::get};
use tollgate::{
    Quota, RateLimitLayer,
    algorithm::TokenBucket,
    key::PeerIp,
    observe::{Event, Observe},
    store::LocalStore,
};

#[derive(Clone)]
struct PrintKeys;

impl Observe<String> for PrintKeys {
    fn observe(&self, event: &Event<'_, String>) {
        println!("{:?}", event.key());
    }
}

fn main() {
    let quota = TokenBucket::new(Quota::per_second(20));
    let limit = RateLimitLayer::new(quota, LocalStore::new(), PeerIp::new()).observe(PrintKeys);
    let _: Router = Router::new().route("/", get(async || "hello")).layer(limit);
}
