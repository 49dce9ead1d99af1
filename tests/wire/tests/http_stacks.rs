//! Every place where a layer can be put: each compiles, and each limits.

use std::{convert::Infallible, net::SocketAddr};

use crate::loopback::{Http1, serve};
use axum::{
    Router,
    extract::{Request, State},
    handler::Handler,
    response::Response,
    routing::{any_service, get},
    serve::IncomingStream,
};
use tokio::net::TcpListener;
use tollgate::{
    LocalRateLimitLayer, Quota, RateLimitLayer, algorithm::FixedWindow, key::Global,
    store::LocalStore,
};
use tower::{Layer, ServiceBuilder, limit::ConcurrencyLimitLayer};

/// A layer that admits two requests, and none after them.
fn two() -> LocalRateLimitLayer<FixedWindow, (), Global> {
    let two = FixedWindow::new(Quota::per_day(2)).from_first_request();
    RateLimitLayer::new(two, LocalStore::new(), Global)
}

async fn hello() -> &'static str {
    "hello"
}

fn app() -> Router {
    Router::new().route("/", get(hello))
}

async fn assert_two_pass(app: Router) {
    assert_two_pass_at(serve(app).await, "/").await;
}

async fn assert_two_pass_at(server: SocketAddr, path: &str) {
    let mut client = Http1::connect(server).await;
    for expected in [200, 200, 429, 429] {
        assert_eq!(client.status(path).await, expected);
    }
}

#[tokio::test]
async fn around_a_router_or_the_routes_of_it() {
    assert_two_pass(app().layer(two())).await;
    assert_two_pass(app().route_layer(two())).await;
}

#[tokio::test]
async fn around_a_handler_or_the_methods_of_a_route() {
    assert_two_pass(Router::new().route("/", get(hello.layer(two())))).await;
    let methods = || get(hello).post(hello);
    assert_two_pass(Router::new().route("/", methods().layer(two()))).await;
    assert_two_pass(Router::new().route("/", methods().route_layer(two()))).await;
}

#[tokio::test]
async fn around_a_router_that_is_merged_or_nested() {
    assert_two_pass(Router::new().merge(app().layer(two()))).await;
    let nested = Router::new().nest("/inner", app().layer(two()));
    assert_two_pass_at(serve(nested).await, "/inner").await;
}

#[tokio::test]
async fn around_a_router_with_state() {
    async fn state(State(state): State<u32>) -> String {
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
async fn in_a_stack_of_layers_as_the_outermost_the_innermost_and_between() {
    let busy = || ConcurrencyLimitLayer::new(8);
    let seen = || tower::util::MapRequestLayer::new(|request: Request| request);
    let stack = ServiceBuilder::new;
    assert_two_pass(app().layer(stack().layer(two()).layer(busy()).layer(seen()))).await;
    assert_two_pass(app().layer(stack().layer(busy()).layer(two()).layer(seen()))).await;
    assert_two_pass(app().layer(stack().layer(busy()).layer(seen()).layer(two()))).await;
    assert_two_pass(app().layer(stack().option_layer(Some(busy())).layer(two()))).await;
    assert_two_pass(app().layer((busy(), two(), seen()))).await;
}

#[tokio::test]
async fn a_layer_that_is_cloned_for_each_connection_still_has_one_budget() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let limit = two();
    let make = tower::service_fn(move |_: IncomingStream<'_, TcpListener>| {
        let limited = limit.clone().layer(app());
        async move { Ok::<_, Infallible>(limited) }
    });
    tokio::spawn(async move { axum::serve(listener, make).await });
    for expected in [200, 200, 429, 429] {
        let mut client = Http1::connect(server).await;
        assert_eq!(client.status("/").await, expected);
    }
}
