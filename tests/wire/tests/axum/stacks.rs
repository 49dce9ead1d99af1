//! Every place where a layer can be put: each compiles, and each limits.

use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    response::Response,
    routing::{any_service, get},
    serve::IncomingStream,
};
use tokio::net::TcpListener;
use tollgate::{
    LocalRateLimitLayer, Quota, RateLimitLayer,
    algorithm::{FixedWindow, TokenBucket},
    key::{Global, PeerIp},
    response::{AsError, RateLimited},
    store::LocalStore,
};
use tollgate_wire::{Connection, Server, Version, serve, serve_service};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};

/// A layer that admits two requests, and none after them.
fn two() -> LocalRateLimitLayer<FixedWindow, (), Global> {
    RateLimitLayer::new(
        FixedWindow::new(Quota::per_day(2)),
        LocalStore::new(),
        Global,
    )
}

async fn hello() -> &'static str {
    "hello"
}

async fn assert_two_pass(app: Router) {
    let server = serve(app).await;
    assert_two_pass_on(&server).await;
}

async fn assert_two_pass_on(server: &Server) {
    let mut connection = Connection::open(Version::Http1, server.address).await;
    for expected in [200, 200, 429, 429] {
        assert_eq!(connection.get("/").await.status, expected);
    }
}

#[tokio::test]
async fn around_a_router() {
    assert_two_pass(Router::new().route("/", get(hello)).layer(two())).await;
}

#[tokio::test]
async fn around_the_routes_of_a_router() {
    assert_two_pass(Router::new().route("/", get(hello)).route_layer(two())).await;
}

#[tokio::test]
async fn around_a_handler() {
    assert_two_pass(Router::new().route("/", get(hello.layer(two())))).await;
}

#[tokio::test]
async fn around_the_methods_of_a_route() {
    let route = get(hello).post(hello);
    assert_two_pass(Router::new().route("/", route.layer(two()))).await;
    let route = get(hello).post(hello);
    assert_two_pass(Router::new().route("/", route.route_layer(two()))).await;
}

#[tokio::test]
async fn around_a_router_that_is_merged_or_nested() {
    let limited = || Router::new().route("/", get(hello)).layer(two());
    assert_two_pass(Router::new().merge(limited())).await;
    let nested = Router::new().nest("/inner", limited());
    let server = serve(nested).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    for expected in [200, 200, 429] {
        assert_eq!(connection.get("/inner").await.status, expected);
    }
}

#[tokio::test]
async fn around_a_router_with_state() {
    async fn state(axum::extract::State(state): axum::extract::State<u32>) -> String {
        state.to_string()
    }
    let app = Router::new().route("/", get(state)).layer(two());
    assert_two_pass(app.with_state(7)).await;
}

#[tokio::test]
async fn around_a_service_that_is_a_route() {
    let service =
        tower::service_fn(|_: Request| async { Ok::<Response, Infallible>(Response::default()) });
    assert_two_pass(Router::new().route("/", any_service(two().layer(service)))).await;
}

#[tokio::test]
async fn around_a_router_from_outside() {
    let app = Router::new().route("/", get(hello));
    let server = serve_service(two().layer(app)).await;
    assert_two_pass_on(&server).await;
}

#[tokio::test]
async fn in_a_stack_of_layers_as_the_outermost_the_innermost_and_between() {
    let busy = || ConcurrencyLimitLayer::new(8);
    let seen = || tower::util::MapRequestLayer::new(|request: Request| request);
    let app = || Router::new().route("/", get(hello));
    let outermost = ServiceBuilder::new()
        .layer(two())
        .layer(busy())
        .layer(seen());
    assert_two_pass(app().layer(outermost)).await;
    let between = ServiceBuilder::new()
        .layer(busy())
        .layer(two())
        .layer(seen());
    assert_two_pass(app().layer(between)).await;
    let innermost = ServiceBuilder::new()
        .layer(busy())
        .layer(seen())
        .layer(two());
    assert_two_pass(app().layer(innermost)).await;
    let optional = ServiceBuilder::new()
        .option_layer(Some(busy()))
        .layer(two());
    assert_two_pass(app().layer(optional)).await;
    assert_two_pass(app().layer((busy(), two(), seen()))).await;
}

#[tokio::test]
async fn two_different_limits_in_one_stack() {
    let burst = TokenBucket::new(Quota::per_day(2));
    let burst = RateLimitLayer::new(burst, LocalStore::new(), PeerIp::new());
    let day = RateLimitLayer::new(
        FixedWindow::new(Quota::per_day(1_000)),
        LocalStore::new(),
        Global,
    );
    let both = ServiceBuilder::new().layer(day).layer(burst);
    assert_two_pass(Router::new().route("/", get(hello)).layer(both)).await;
}

#[tokio::test]
async fn a_service_of_any_type_boxed_and_shared() {
    let echo = tower::service_fn(|number: u64| async move { Ok::<_, BoxError>(number) });
    let service = ServiceBuilder::new()
        .layer(two().respond_with(AsError::new()))
        .service(echo);
    let mut service = tower::util::BoxCloneSyncService::new(service);
    for number in [7, 8] {
        let answer = service.ready().await.unwrap().call(number).await;
        assert_eq!(answer.unwrap(), number);
    }
    let error = service.ready().await.unwrap().call(9).await.unwrap_err();
    assert!(error.is::<RateLimited>());
}

#[tokio::test]
async fn a_layer_that_is_cloned_for_each_connection_still_has_one_budget() {
    let (listener, address) = Server::listen().await;
    let (limit, app) = (two(), Router::new().route("/", get(hello)));
    let make = tower::service_fn(move |_: IncomingStream<'_, TcpListener>| {
        let limited = limit.clone().layer(app.clone());
        async move { Ok::<_, Infallible>(limited) }
    });
    let server = Server::run(address, async {
        axum::serve(listener, make).await.unwrap();
    });
    for expected in [200, 200, 429, 429] {
        let mut connection = Connection::open(Version::Http1, server.address).await;
        assert_eq!(connection.get("/").await.status, expected);
    }
}

#[tokio::test]
async fn the_inner_permit_is_given_back_by_a_request_that_is_refused() {
    let stack = ServiceBuilder::new()
        .layer(two())
        .layer(ConcurrencyLimitLayer::new(1));
    let server = serve(Router::new().route("/", get(hello)).layer(stack)).await;
    let requests = async {
        for _ in 0..3 {
            let mut connection = Connection::open(Version::Http2, server.address).await;
            for _ in 0..3 {
                connection.get("/").await;
            }
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(10), requests).await;
    done.expect("no permit is kept");
}
