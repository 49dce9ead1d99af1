//! An inner service that is not `Clone`.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use tollgate::{Quota, RateLimitLayer};
use tollgate::{algorithm::TokenBucket, key::Global, response::AsError, store::LocalStore};
use tower::{Layer, Service, ServiceBuilder};

struct Connection;

impl Service<u32> for Connection {
    type Response = u32;
    type Error = Infallible;
    type Future = Ready<Result<u32, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, number: u32) -> Self::Future {
        ready(Ok(number))
    }
}

fn main() {
    let limit = RateLimitLayer::new(
        TokenBucket::new(Quota::per_second(20)),
        LocalStore::new(),
        Global,
    )
    .respond_with(AsError::new());
    let _ = limit.layer(Connection);
    let _ = ServiceBuilder::new().layer(limit).service(Connection);
}
