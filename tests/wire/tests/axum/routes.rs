//! Routes as keys and as costs.

use axum::{
    Router,
    routing::{any, get, post},
};
use http::Method;
use tollgate::{
    Quota, RateLimitLayer, RouteCosts,
    algorithm::FixedWindow,
    key::{Global, MatchedRoute},
};
use tollgate_wire::{Connection, Server, Version, exchange, fresh_store, serve, serve_service};
use tower::Layer;

const OTHER_SPELLINGS: [&str; 6] = [
    "/Login", "/login/", "//login", "/%6cogin", "/login;x", "/login/.",
];

fn app() -> Router {
    Router::new()
        .route("/login", any(|| async {}))
        .route("/users/{id}", any(|| async {}))
}

async fn status(server: &Server, target: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let answer = exchange(server.address, request.as_bytes()).await;
    let status = answer.get(9..12).expect("there is an answer");
    std::str::from_utf8(status).unwrap().parse().unwrap()
}

#[tokio::test]
async fn inside_of_the_router_a_route_is_one_bucket_and_all_that_is_no_route_another() {
    let limit = FixedWindow::new(Quota::per_day(3));
    let limit = RateLimitLayer::new(limit, fresh_store().1, MatchedRoute::new());
    let server = serve(app().layer(limit)).await;
    for target in ["/login", "/login?x=1", "http://a/login"] {
        assert_eq!(status(&server, target).await, 200, "{target}");
    }
    assert_eq!(status(&server, "/login").await, 429);
    assert_eq!(status(&server, "http://b/login?y").await, 429);
    for user in ["/users/1", "/users/2", "/users/%31"] {
        assert_eq!(status(&server, user).await, 200, "{user}");
    }
    assert_eq!(status(&server, "/users/3").await, 429);
    // No spelling of a path gets a bucket to itself, and none reaches the route.
    for (number, target) in OTHER_SPELLINGS.into_iter().enumerate() {
        let expected = if number < 3 { 404 } else { 429 };
        assert_eq!(status(&server, target).await, expected, "{target}");
    }
}

#[tokio::test]
async fn a_route_layer_limits_routes_and_leaves_what_is_none_alone() {
    let limit = FixedWindow::new(Quota::per_day(1));
    let limit = RateLimitLayer::new(limit, fresh_store().1, MatchedRoute::new());
    let server = serve(app().route_layer(limit)).await;
    assert_eq!(status(&server, "/login").await, 200);
    assert_eq!(status(&server, "/login").await, 429);
    assert_eq!(status(&server, "/users/1").await, 200);
    assert_eq!(status(&server, "/users/2").await, 429);
    for target in OTHER_SPELLINGS {
        assert_eq!(status(&server, target).await, 404, "{target}");
    }
}

#[tokio::test]
async fn outside_of_the_router_no_route_is_known_and_all_requests_share_a_bucket() {
    let limit = FixedWindow::new(Quota::per_day(2));
    let limit = RateLimitLayer::new(limit, fresh_store().1, MatchedRoute::new());
    let server = serve_service(limit.layer(app())).await;
    assert_eq!(status(&server, "/login").await, 200);
    assert_eq!(status(&server, "/users/1").await, 200);
    for target in ["/login", "/users/1", "/nowhere"] {
        assert_eq!(status(&server, target).await, 429, "{target}");
    }
}

#[tokio::test]
async fn the_route_of_a_nested_router_is_the_whole_pattern() {
    let limit = FixedWindow::new(Quota::per_day(1));
    let limit = RateLimitLayer::new(limit, fresh_store().1, MatchedRoute::new());
    let api = || Router::new().route("/users/{id}", get(|| async {}));
    let server = serve(
        Router::new()
            .nest("/v1", api())
            .nest("/v2", api())
            .layer(limit),
    )
    .await;
    for (target, expected) in [
        ("/v1/users/1", 200),
        ("/v1/users/2", 429),
        ("/v2/users/1", 200),
        ("/v2/users/2", 429),
    ] {
        assert_eq!(status(&server, target).await, expected, "{target}");
    }
}

#[tokio::test]
async fn costs_are_by_method_and_route_and_in_a_nested_router_too() {
    let costs = RouteCosts::new(1)
        .on("/search", 5)
        .on("/v1/files/{name}", 2)
        .on_method(Method::POST, "/v1/files/{name}", 20)
        .on("/free", 0);
    let limit = FixedWindow::new(Quota::per_day(100)).named("units");
    let limit = RateLimitLayer::new(limit, fresh_store().1, Global).cost(costs);
    let files = Router::new().route("/files/{name}", get(|| async {}).merge(post(|| async {})));
    let app = Router::new()
        .route("/search", any(|| async {}))
        .route("/free", any(|| async {}))
        .route("/other", any(|| async {}))
        .nest("/v1", files)
        .layer(limit);
    let server = serve(app).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    let mut left = 100;
    for (method, path, cost) in [
        (Method::GET, "/search", 5),
        (Method::POST, "/search", 5),
        (Method::GET, "/v1/files/a", 2),
        (Method::POST, "/v1/files/b", 20),
        (Method::GET, "/free", 0),
        (Method::GET, "/other", 1),
        (Method::GET, "/nowhere", 1),
        (Method::GET, "/Search", 1),
    ] {
        left -= cost;
        let mut request = tollgate_wire::get(path);
        *request.method_mut() = method;
        let reply = connection.send(request).await;
        let told = format!("\"units\";r={left}");
        assert!(
            reply.field("ratelimit").starts_with(&told),
            "{path}: {reply:?}"
        );
    }
}

#[tokio::test]
async fn two_routes_share_one_quota_with_different_costs() {
    let limit = FixedWindow::new(Quota::per_day(10)).named("units");
    let limit = RateLimitLayer::new(limit, fresh_store().1, Global);
    let app = Router::new()
        .route("/light", get(|| async {}).layer(limit.clone()))
        .route("/heavy", get(|| async {}).layer(limit.cost(4_u32)));
    let server = serve(app).await;
    for (target, expected) in [
        ("/heavy", 200),
        ("/heavy", 200),
        ("/heavy", 429),
        ("/light", 200),
        ("/light", 200),
        ("/light", 429),
    ] {
        assert_eq!(status(&server, target).await, expected, "{target}");
    }
}
