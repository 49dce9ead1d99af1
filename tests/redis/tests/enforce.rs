//! A limit over Redis that is not enforced decides and counts like one that is, and every request
//! passes, whatever happens to the server.

use std::{convert::Infallible, future, time::Duration};

use http::{Request, Response};
use tollgate::{
    Decision, Quota, RateLimitLayer, RateLimiter, Timestamp, algorithm::*, clock::ManualClock,
    key::Global, store::RedisStore,
};
use tollgate_algorithms::every_algorithm;
use tollgate_redis_tests::Server;
use tower::{Layer, Service, ServiceExt};

/// Answers with the decision about its request.
fn inner(request: Request<u32>) -> future::Ready<Result<Response<String>, Infallible>> {
    let mut response = Response::new(String::new());
    if let Some(decision) = request.extensions().get::<Decision>() {
        response.extensions_mut().insert(decision.clone());
    }
    future::ready(Ok(response))
}

/// Each decision of a layer that is not enforced is that of a limiter with buckets of its own.
async fn decides_as_if_it_were_enforced<A: Scripted>(name: &str, algorithm: A, server: &Server) {
    let clock = ManualClock::at(Timestamp::from_micros(1_700_006_400_000_000));
    let client = server.client().await;
    let store = |prefix: &str| {
        let builder = RedisStore::builder(client.clone())
            .prefix(format!("{prefix}-{}", name.replace(' ', "-")));
        let builder = builder.clock(clock.clone());
        builder.deadline(Duration::from_secs(20)).build()
    };
    let plain = RateLimiter::new(algorithm.clone(), store("plain"));
    let mut rehearsed = RateLimitLayer::new(algorithm, store("rehearsed"), Global)
        .cost(|request: &Request<u32>| *request.body())
        .expose_decision()
        .enforce(false)
        .layer(tower::service_fn(inner));
    let mut refused = 0;
    for step in 0..60_u32 {
        let (passes, cost) = (step % 7 * 20_000, step % 5);
        clock.advance(Duration::from_micros(passes.into()));
        let told = plain.check_cost(&(), cost).await.unwrap();
        let request = Request::builder().body(cost).unwrap();
        let response = rehearsed
            .ready()
            .await
            .unwrap()
            .call(request)
            .await
            .unwrap();
        assert_eq!(response.extensions().get(), Some(&told), "{name}");
        assert!(response.headers().is_empty(), "{name}");
        refused += u32::from(!told.is_admitted());
    }
    assert!((5..55).contains(&refused), "{name}: {refused} of 60");
}

#[tokio::test]
async fn every_algorithm_decides_as_if_it_were_enforced() {
    let server = Server::start().await;
    let quota = Quota::per_second(7);
    let (burst, precision) = (5, Duration::from_millis(100));
    let interval = Duration::from_millis(400);
    macro_rules! each {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            decides_as_if_it_were_enforced($name, $made, &server).await;
        )+};
    }
    every_algorithm!(each, quota, burst, precision, interval);
}

/// A fault of a server that has decided before.
async fn a_request_passes(fault: impl Fn(&Server)) {
    let server = Server::start().await;
    let builder = RedisStore::builder(server.client().await);
    let none = FixedWindow::new(Quota::per_day(0));
    let store = builder.deadline(Duration::from_millis(100)).build();
    let limit = RateLimitLayer::new(none, store, Global);
    let answer = async |enforced: bool| {
        let request = Request::builder().body(1).unwrap();
        let service = limit.clone().enforce(enforced);
        let service = service.layer(tower::service_fn(inner));
        service.oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!([answer(true).await, answer(false).await], [429, 200]);
    fault(&server);
    for _ in 0..5 {
        assert_eq!([answer(true).await, answer(false).await], [503, 200]);
    }
}

#[tokio::test]
async fn a_request_passes_while_the_server_is_gone() {
    a_request_passes(Server::kill).await;
}

#[tokio::test]
async fn a_request_passes_while_the_server_hangs() {
    a_request_passes(Server::stop_process).await;
}
