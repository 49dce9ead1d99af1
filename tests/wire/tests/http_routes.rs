//! `MatchedRoute` and `RouteCosts` wherever axum lets a layer be.

use crate::loopback::{Http1, lines, serve};
use axum::{Router, ServiceExt, extract::Request, handler::Handler, routing::get};
use http::Method;
use tokio::net::TcpListener;
use tollgate::{
    Options, Quota, RateLimitLayer, RouteCosts,
    algorithm::FixedWindow,
    clock::ManualClock,
    key::{Global, MatchedRoute, RouteKey},
    store::LocalStore,
};
use tower::Layer;

type Store<K> = LocalStore<FixedWindow, K, ManualClock>;

/// Two for each route, for ever: time stands still.
fn two_by_route() -> RateLimitLayer<FixedWindow, Store<RouteKey>, MatchedRoute> {
    let two = FixedWindow::new(Quota::per_day(2));
    RateLimitLayer::new(two, crate::support::by_hand().1, MatchedRoute::new())
}

/// A hundred for everyone together.
fn priced() -> RateLimitLayer<FixedWindow, Store<()>, Global, Options<RouteCosts>> {
    let hundred = FixedWindow::new(Quota::per_day(100)).named("all");
    RateLimitLayer::new(hundred, crate::support::by_hand().1, Global).cost(
        RouteCosts::new(1)
            .on("/users/{id}", 5)
            .on("/api/users/{id}", 7)
            .on_method(Method::POST, "/users/{id}", 20)
            .on("/free", 0),
    )
}

async fn user() -> &'static str {
    "a user"
}

fn routes() -> Router {
    Router::new()
        .route("/users/{id}", get(user).post(user))
        .route("/free", get(user))
        .route("/posts", get(user))
}

async fn statuses(app: Router, paths: &[&str]) -> Vec<u16> {
    let mut client = Http1::connect(serve(app).await).await;
    let mut statuses = Vec::new();
    for path in paths {
        statuses.push(client.status(path).await);
    }
    statuses
}

const USERS: [&str; 5] = ["/users/1", "/users/2", "/users/3", "/posts", "/users/4"];

#[tokio::test]
async fn on_a_router_each_pattern_has_a_bucket() {
    let app = routes().layer(two_by_route());
    assert_eq!(statuses(app, &USERS).await, [200, 200, 429, 200, 429]);
    let app = routes().route_layer(two_by_route());
    assert_eq!(statuses(app, &USERS).await, [200, 200, 429, 200, 429]);
}

#[tokio::test]
async fn on_a_router_no_other_spelling_has_a_bucket_of_its_own() {
    let paths = [
        "/Users/1",
        "/users/1/",
        "//users/1",
        "/%75sers/1",
        "/users",
        "/nothing",
    ];
    // All of them match no route, and `Router::layer` sees those as well.
    let app = routes().layer(two_by_route());
    assert_eq!(statuses(app, &paths).await, [404, 404, 429, 429, 429, 429]);
    // `Router::route_layer` does not.
    let app = routes().route_layer(two_by_route());
    assert_eq!(statuses(app, &paths).await, [404; 6]);
    // Queries and encoded parameters are the same route.
    let paths = ["/users/1?a=1", "/users/%31", "/users/1;x?b=2"];
    let app = routes().layer(two_by_route());
    assert_eq!(statuses(app, &paths).await, [200, 200, 429]);
}

#[tokio::test]
async fn on_a_method_router_or_a_handler_the_pattern_is_the_key_as_well() {
    let limit = two_by_route();
    let app = Router::new()
        .route("/users/{id}", get(user).layer(limit.clone()))
        .route("/posts", get(user).layer(limit));
    assert_eq!(statuses(app, &USERS).await, [200, 200, 429, 200, 429]);

    let limit = two_by_route();
    let app = Router::new()
        .route("/users/{id}", get(user.layer(limit.clone())))
        .route("/posts", get(user.layer(limit)));
    assert_eq!(statuses(app, &USERS).await, [200, 200, 429, 200, 429]);
}

#[tokio::test]
async fn in_a_nested_router_the_key_is_the_whole_pattern() {
    let limit = two_by_route();
    let app = Router::new()
        .nest("/a", routes().layer(limit.clone()))
        .nest("/b", routes().layer(limit.clone()))
        .nest_service("/c", routes().layer(limit));
    let paths = [
        "/a/users/1",
        "/a/users/2",
        "/a/users/3",
        "/b/users/1",
        "/b/users/2",
        "/b/users/3",
        "/c/users/1",
        "/c/users/2",
        "/c/users/3",
    ];
    let told = statuses(app, &paths).await;
    assert_eq!(told, [200, 200, 429, 200, 200, 429, 200, 200, 429]);
    // From outside it is the same.
    let app = Router::new().nest("/a", routes()).nest("/b", routes());
    let told = statuses(app.layer(two_by_route()), &paths[..6]).await;
    assert_eq!(told, [200, 200, 429, 200, 200, 429]);
}

#[tokio::test]
async fn outside_of_the_router_all_requests_are_one_bucket_of_default_cost() {
    let limited = two_by_route().layer(priced().layer(routes()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let service = ServiceExt::<Request>::into_make_service(limited);
    tokio::spawn(async move { axum::serve(listener, service).await });
    let mut client = Http1::connect(server).await;
    for (path, status, left) in [("/users/1", 200, "99"), ("/free", 200, "98")] {
        let answer = client.get(path).await;
        assert_eq!(answer.status(), status);
        let told = lines(&answer, "ratelimit")[0].to_owned();
        assert!(told.starts_with(&format!("\"all\";r={left};")), "{told}");
    }
    assert_eq!(client.status("/posts").await, 429);
}

/// What each of these requests costs.
async fn costs(app: Router, requests: &[(Method, &str)]) -> Vec<u32> {
    let mut client = Http1::connect(serve(app).await).await;
    let mut left: u32 = 100;
    let mut costs = Vec::new();
    for (method, path) in requests {
        let request = http::Request::builder().method(method).uri(*path);
        let answer = client.send(request.body(()).unwrap()).await;
        let told = lines(&answer, "ratelimit")[0];
        let told = told.split(';').find_map(|part| part.strip_prefix("r="));
        let told: u32 = told.unwrap().parse().unwrap();
        costs.push(left - told);
        left = told;
    }
    costs
}

#[tokio::test]
async fn a_route_costs_what_the_table_says_wherever_the_layer_is() {
    let requests = [
        (Method::GET, "/users/1"),
        (Method::POST, "/users/2"),
        (Method::GET, "/free"),
        (Method::GET, "/posts"),
        (Method::GET, "/users/3?x"),
    ];
    let expected = [5, 20, 0, 1, 5];
    assert_eq!(costs(routes().layer(priced()), &requests).await, expected);
    assert_eq!(
        costs(routes().route_layer(priced()), &requests).await,
        expected
    );

    let limit = priced();
    let each = |limit: &RateLimitLayer<_, _, _, _>| get(user).post(user).layer(limit.clone());
    let app = Router::new()
        .route("/users/{id}", each(&limit))
        .route("/free", each(&limit))
        .route("/posts", each(&limit));
    assert_eq!(costs(app, &requests).await, expected);

    let app = Router::new()
        .route(
            "/users/{id}",
            get(user.layer(limit.clone())).post(user.layer(limit.clone())),
        )
        .route("/free", get(user.layer(limit.clone())))
        .route("/posts", get(user.layer(limit.clone())));
    // The same buckets: 31 of them are gone already.
    let mut expected = expected;
    expected[0] += 31;
    assert_eq!(costs(app, &requests).await, expected);
}

#[tokio::test]
async fn a_nested_route_costs_what_its_whole_pattern_does_and_no_route_the_default() {
    let app = Router::new().nest("/api", routes().layer(priced()));
    let nested = [(Method::GET, "/api/users/1"), (Method::GET, "/api/free")];
    assert_eq!(costs(app, &nested).await, [7, 1]);
    let unmatched = [(Method::GET, "/nothing"), (Method::GET, "//users/1")];
    assert_eq!(costs(routes().layer(priced()), &unmatched).await, [1, 1]);
}
