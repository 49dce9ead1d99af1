//! An inner service that cannot be cloned.

use tollgate::{Quota, RateLimitLayer, algorithm::TokenBucket, key::Global, response::AsError, store::LocalStore};
use tower::{Layer, Service};

struct Connection;

impl Service<u32> for Connection {
    type Response = u32;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<u32, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), std::io::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Self::Future {
        std::future::ready(Ok(number))
    }
}

fn main() {
    let limit = RateLimitLayer::new(TokenBucket::new(Quota::per_second(5)), LocalStore::new(), Global)
        .respond_with(AsError);
    let _ = limit.layer(Connection);
}
