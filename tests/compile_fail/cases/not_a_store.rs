//! Something that is no store at all.

use std::collections::HashMap;
use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::Global};

fn main() {
    let store: HashMap<String, u32> = HashMap::new();
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_second(5)), store, Global);
    let _: axum::Router = axum::Router::new().layer(limit);
}
