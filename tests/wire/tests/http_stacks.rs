//! Every place where a layer can be put: each compiles, and each limits.

use std::convert::Infallible;

use crate::loopback::{Http1, serve};
use axum::{
    Router,
    extract::{Request, State},
    handler::Handler,
    response::Response,
    routing::{any_service, get},
};
use tollgate::{
    LocalRateLimitLayer, Quota, RateLimitLayer, algorithm::FixedWindow, key::Global,
    store::LocalStore,
};
use tower::{
    Layer, ServiceBuilder, limit::ConcurrencyLimitLayer, service_fn, util::MapRequestLayer,
};

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

#[tokio::test]
async fn wherever_a_layer_can_be_it_limits() {
    async fn state(State(state): State<u32>) -> String {
        state.to_string()
    }
    let service = service_fn(async |_: Request| Ok::<Response, Infallible>(Response::default()));
    let methods = || get(hello).post(hello);
    let busy = || ConcurrencyLimitLayer::new(8);
    let seen = || MapRequestLayer::new(|request: Request| request);
    let stack = ServiceBuilder::new;
    let places = [
        app().layer(two()),
        app().route_layer(two()),
        Router::new().route("/", get(hello.layer(two()))),
        Router::new().route("/", methods().layer(two())),
        Router::new().route("/", methods().route_layer(two())),
        Router::new().route("/", any_service(two().layer(service))),
        Router::new().merge(app().layer(two())),
        Router::new().fallback_service(app().layer(two())),
        Router::new()
            .route("/", get(state))
            .layer(two())
            .with_state(7),
        // As the outermost of several layers, between them, and as the innermost.
        app().layer(stack().layer(two()).layer(busy()).layer(seen())),
        app().layer(stack().layer(busy()).layer(two()).layer(seen())),
        app().layer(stack().layer(busy()).layer(seen()).layer(two())),
        app().layer(stack().option_layer(Some(busy())).layer(two())),
        app().layer((busy(), two(), seen())),
    ];
    for (place, app) in places.into_iter().enumerate() {
        let mut client = Http1::connect(serve(app).await).await;
        for expected in [200, 200, 429, 429] {
            assert_eq!(client.status("/").await, expected, "place {place}");
        }
    }
}
