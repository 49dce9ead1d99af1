//! `MatchedRoute` and `RouteCosts` wherever axum lets a layer be.

use crate::loopback::{Http1, lines, serve};
use axum::{Router, ServiceExt, extract::Request, handler::Handler, routing::get};
use http::Method;
use tokio::net::TcpListener;
use tollgate::{
    Quota, RateLimitLayer, RouteCosts,
    algorithm::FixedWindow,
    clock::ManualClock,
    key::{MatchedRoute, RouteKey},
    options::WithCost,
    response::Http,
    store::LocalStore,
};
use tower::Layer;

type Store = LocalStore<FixedWindow, RouteKey, ManualClock>;

/// Forty units for each route, for ever, as time stands still; and what a request costs.
fn limit() -> RateLimitLayer<FixedWindow, Store, MatchedRoute, Http, WithCost<RouteCosts>> {
    let forty = FixedWindow::new(Quota::per_day(40));
    RateLimitLayer::new(forty, crate::support::by_hand().1, MatchedRoute::new()).cost(
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

/// The status of each answer, and what it says is left.
async fn answers(client: &mut Http1, requests: &[&str]) -> Vec<String> {
    let mut told = Vec::new();
    for request in requests {
        let (method, path) = request.split_once(' ').unwrap_or(("GET", request));
        let request = http::Request::builder().method(method).uri(path);
        let answer = client.send(request.body(()).unwrap()).await;
        let field = lines(&answer, "ratelimit").concat();
        let left = field.split(';').find(|part| part.starts_with("r="));
        let status = answer.status().as_u16();
        told.push(format!("{status} {}", left.unwrap_or("-")));
    }
    told
}

async fn answers_of(app: Router, requests: &[&str]) -> Vec<String> {
    answers(&mut Http1::connect(serve(app).await).await, requests).await
}

#[tokio::test]
async fn wherever_the_layer_is_each_pattern_has_a_bucket_and_costs_what_the_table_says() {
    let (methods, handlers) = (limit(), limit());
    let handler = || user.layer(handlers.clone());
    let places = [
        routes().layer(limit()),
        routes().route_layer(limit()),
        Router::new()
            .route("/users/{id}", get(user).post(user).layer(methods.clone()))
            .route("/free", get(user).layer(methods.clone()))
            .route("/posts", get(user).layer(methods)),
        Router::new()
            .route("/users/{id}", get(handler()).post(handler()))
            .route("/free", get(handler()))
            .route("/posts", get(handler())),
    ];
    for (place, app) in places.into_iter().enumerate() {
        let requests = [
            ("/users/1", "200 r=35"),
            ("POST /users/2", "200 r=15"),
            ("/free", "200 r=40"),
            ("/posts", "200 r=39"),
            // Queries and encoded parameters are the same route.
            ("/users/3?x", "200 r=10"),
            ("/users/%31;x?b=2", "200 r=5"),
            ("POST /users/4", "429 r=5"),
        ];
        let (requests, expected): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        assert_eq!(answers_of(app, &requests).await, expected, "place {place}");
    }
}

#[tokio::test]
async fn on_a_router_no_other_spelling_has_a_bucket_of_its_own() {
    let paths = "/Users/1 /users/1/ //users/1 /%75sers/1 /users /nothing";
    let paths: Vec<_> = paths.split(' ').collect();
    // All of them match no route, and `Router::layer` sees those as well.
    let told = answers_of(routes().layer(limit()), &paths).await;
    let left = [39, 38, 37, 36, 35, 34];
    assert_eq!(told, left.map(|left| format!("404 r={left}")));
    // `Router::route_layer` does not.
    let told = answers_of(routes().route_layer(limit()), &paths).await;
    assert_eq!(told, ["404 -"; 6]);
}

#[tokio::test]
async fn in_a_nested_router_the_key_is_the_whole_pattern() {
    let limit = limit();
    let inside = || routes().layer(limit.clone());
    let app = Router::new()
        .nest("/api", inside())
        .nest("/b", inside())
        .nest_service("/c", inside());
    let paths = "/api/users/1 /api/users/2 /b/users/1 /c/users/1 /api/free";
    let paths: Vec<_> = paths.split(' ').collect();
    // The whole pattern also has the cost; what is not in the table has the default.
    let expected = ["200 r=33", "200 r=26", "200 r=39", "200 r=39", "200 r=39"];
    assert_eq!(answers_of(app, &paths).await, expected);
    // From outside it is the same.
    let app = Router::new().nest("/api", routes()).nest("/b", routes());
    let told = answers_of(app.layer(self::limit()), &paths[..3]).await;
    assert_eq!(told, expected[..3]);
}

#[tokio::test]
async fn outside_of_the_router_all_requests_are_one_bucket_of_default_cost() {
    let limited = limit().layer(routes());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let service = ServiceExt::<Request>::into_make_service(limited);
    tokio::spawn(async move { axum::serve(listener, service).await });
    let mut client = Http1::connect(server).await;
    let told = answers(&mut client, &["/users/1", "/free", "POST /users/1"]).await;
    assert_eq!(told, ["200 r=39", "200 r=38", "200 r=37"]);
}
