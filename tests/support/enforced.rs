//! What must hold of a limit that is not enforced, over any store.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    time::Duration,
};

use http::{Request, Response};
use tollgate::{
    Decision, Hold, RateLimitLayer, RateLimiter, algorithm::KeyLimit, clock::ManualClock,
    key::Global, store::Store,
};
use tower::{Layer, Service, ServiceExt};

pub(crate) use crate::steps::START;
use crate::steps::steps;

pub(crate) fn costing(cost: u32) -> Request<u32> {
    Request::builder().body(cost).unwrap()
}

/// Answers with the cost, the decision and the hold of its request.
pub(crate) fn inner(request: Request<u32>) -> Ready<Result<Response<String>, Infallible>> {
    let mut response = Response::new(request.body().to_string());
    let found = request.extensions();
    if let Some(decision) = found.get::<Decision>() {
        response.extensions_mut().insert(decision.clone());
    }
    if let Some(hold) = found.get::<Hold>() {
        response.extensions_mut().insert(hold.clone());
    }
    ready(Ok(response))
}

/// A limit that is not enforced decides as the same limit without a layer, and every request goes
/// on at once and gets a response without rate-limit fields.
pub(crate) async fn decides_as_if_it_were_enforced<A, Plain, S>(
    name: &str,
    algorithm: A,
    (plain, store): (Plain, S),
    clock: &ManualClock,
    count: usize,
) where
    A: KeyLimit,
    Plain: Store<A, ()>,
    S: Store<A, (), Deciding: Send>,
{
    let plain = RateLimiter::new(algorithm.clone(), plain);
    let mut unenforced = RateLimitLayer::new(algorithm, store, Global)
        .cost(|request: &Request<u32>| *request.body())
        .expose_decision()
        .enforce(false)
        .layer(tower::service_fn(inner));
    let mut refused = 0;
    for (passes, cost) in steps(count) {
        clock.advance(Duration::from_micros(passes));
        let told = plain.check_cost(&(), cost).await.unwrap();
        let ready = unenforced.ready().await.unwrap();
        let response = ready.call(costing(cost)).await.unwrap();
        assert_eq!(*response.body(), cost.to_string(), "{name}");
        assert_eq!(response.extensions().get(), Some(&told), "{name}");
        assert!(response.headers().is_empty(), "{name}");
        refused += usize::from(!told.is_admitted());
    }
    let several = count / 12..count - count / 12;
    assert!(several.contains(&refused), "{name}: {refused} of {count}");
}
