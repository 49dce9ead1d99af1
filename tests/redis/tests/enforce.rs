//! A limit over Redis that is not enforced decides and counts like one that is, and every request
//! passes, whatever happens to the server.

use std::time::Duration;

use crate::enforced::{START, costing, decides_as_if_it_were_enforced, inner};
use tollgate::{
    Quota, RateLimitLayer, algorithm::*, clock::ManualClock, key::Global, store::RedisStore,
};
use tollgate_algorithms::every_algorithm;
use tollgate_redis_tests::Server;
use tower::{Layer, ServiceExt};

#[tokio::test]
async fn every_algorithm_decides_as_if_it_were_enforced() {
    let server = Server::start().await;
    let client = server.client().await;
    let quota = Quota::per_second(3);
    let (burst, precision) = (5, Duration::from_millis(100));
    let interval = Duration::from_millis(400);
    macro_rules! each {
        (($($of:tt)*) $($name:literal, $made:expr, $model:expr;)+) => {$(
            let clock = ManualClock::at(START);
            let stores = ["plain", "layer"].map(|who| {
                let builder = RedisStore::builder(client.clone());
                let builder = builder.prefix(format!("{who}-{}", $name.replace(' ', "-")));
                builder.deadline(Duration::from_secs(20)).clock(clock.clone()).build()
            });
            decides_as_if_it_were_enforced($name, $made, stores.into(), &clock, 60).await;
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
        let service = limit.clone().enforce(enforced);
        let service = service.layer(tower::service_fn(inner));
        service.oneshot(costing(1)).await.unwrap().status().as_u16()
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
