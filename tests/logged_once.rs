//! What is legal and may be a mistake is told to the operator: once, and by name.
#![cfg(feature = "axum")]

use std::{
    fmt::{self, Write},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use crate::listener::Listener;
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    routing::get,
};
use tollgate::{
    Quota, RateLimitLayer, RouteCosts,
    algorithm::FixedWindow,
    key::{ClientIp, Global, Header, KeyExtractor},
    rules::Rules,
    store::LocalStore,
};
use tower::{Layer, ServiceExt};
use tracing::{
    Event,
    field::{Field, Visit},
    subscriber::{DefaultGuard, set_default},
};

/// Writes down the names and the fields of this crate's events, without their messages.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Listens on this thread until it is dropped.
    fn listen(&self) -> DefaultGuard {
        let log = Arc::clone(&self.0);
        set_default(Listener(move |event: &Event<'_>| {
            let mut told = Fields(event.metadata().name().to_owned());
            event.record(&mut told);
            log.lock().unwrap().push(told.0);
        }))
    }

    /// What was told since the last time, in alphabetical order.
    fn told(&self) -> Vec<String> {
        let mut told = std::mem::take(&mut *self.0.lock().unwrap());
        told.sort();
        told
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

async fn status(app: &Router, path: &str) -> u16 {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn routes_that_no_request_has_matched_in_ten_thousand_are_told_each_by_its_name() {
    let log = Log::default();
    let _guard = log.listen();
    let costs = RouteCosts::new(0)
        .on("/search", 0)
        .on("/serach", 5)
        .on("/report", 0)
        .on_method(http::Method::POST, "/user/{id}", 20);
    let quota = FixedWindow::new(Quota::per_day(1));
    let limit = RateLimitLayer::new(quota, LocalStore::new(), Global).cost(costs);
    // Each route has a clone of the layer; what they match counts together.
    let app: Router = Router::new()
        .route("/search", get(async || ""))
        .route("/report", get(async || ""))
        .route("/users/{id}", get(async || ""))
        .layer(limit);
    for number in 1..10_000 {
        let path = ["/search", "/report", "/users/1"][number % 3];
        assert_eq!(status(&app, path).await, 200);
    }
    assert_eq!(log.told(), [""; 0]);
    assert_eq!(status(&app, "/search").await, 200);
    let told = ["/serach", "/user/{id}"];
    assert_eq!(
        log.told(),
        told.map(|it| format!("cost.route_not_matched route={it}"))
    );
    for _ in 0..10_001 {
        assert_eq!(status(&app, "/search").await, 200);
    }
    assert_eq!(log.told(), [""; 0]);
}

#[tokio::test]
async fn a_route_of_a_rule_that_none_of_ten_thousand_requests_has_matched_is_told_once() {
    let log = Log::default();
    let _guard = log.listen();
    let rules = Rules::new();
    let file = || {
        let rule = |name: &str, routes: &[&str]| {
            serde_json::json!({
                "name": name,
                "routes": routes,
                "key": "everyone",
                "limit": { "algorithm": "fixed-window", "quota": "1000000/day" },
            })
        };
        serde_json::json!({ "rules": [
            rule("searches", &["GET /search", "POST /search", "GET /serach"]),
            rule("users", &["/users/{id}", "GET /users/{id}/{rest}"]),
            // Not of a route: no method is misspelled.
            rule("deletions", &["DELETE"]),
        ] })
    };
    rules.replace(file()).unwrap();
    let limit = RateLimitLayer::new(rules.clone(), LocalStore::new(), rules.clone());
    let app: Router = Router::new()
        .route("/search", get(async || "").post(async || ""))
        .route("/users/{id}", get(async || ""));
    // In one place the route is known, in the other its path.
    let outside = Router::new().fallback_service(limit.layer(app.clone()));
    let inside = app.layer(limit);
    for number in 1..5_000 {
        let path = ["/search", "/users/1"][number % 2];
        assert_eq!(status(&inside, path).await, 200);
        assert_eq!(status(&outside, path).await, 200);
    }
    assert_eq!(status(&inside, "/search").await, 200);
    assert_eq!(log.told(), [""; 0]);
    assert_eq!(status(&inside, "/search").await, 200);
    let told = [
        "searches route=GET /serach",
        "users route=GET /users/{id}/{rest}",
    ];
    let told = told.map(|route| format!("rules.route_not_matched rule={route}"));
    assert_eq!(log.told(), told);
    // Nor again when the file was read once more.
    rules.replace(file()).unwrap();
    for _ in 0..10_001 {
        assert_eq!(status(&inside, "/search").await, 200);
    }
    let told = "rules.route_not_matched rule=users route=/users/{id}";
    assert_eq!(log.told(), [told]);
}

#[tokio::test]
async fn a_header_that_requests_lack_is_told_by_its_name() {
    let log = Log::default();
    let _guard = log.listen();
    for name in ["x-first", "x-second"] {
        let quota = FixedWindow::new(Quota::per_day(1));
        let limit = RateLimitLayer::new(quota, LocalStore::new(), Header::new(name));
        let app = hello().layer(limit);
        for _ in 0..3 {
            assert_eq!(status(&app, "/").await, 400);
        }
        assert_eq!(log.told(), [format!("key.header_missing header={name}")]);
    }
}

#[tokio::test]
async fn a_proxy_s_header_that_names_no_client_is_told_by_what_is_wrong_and_not_by_what_it_says() {
    let log = Log::default();
    let _guard = log.listen();
    let by = ClientIp::x_forwarded_for(["10.0.0.1"]);
    let too_long = "secret".repeat(2_000);
    for (value, name) in [
        ("1.2.3.4", None),
        (", ,", Some("header_missing")),
        ("secret", Some("header_unreadable")),
        (&too_long, Some("header_unreadable")),
    ] {
        let mut request = Request::get("/").header("x-forwarded-for", value);
        let peer = SocketAddr::from(([10, 0, 0, 1], 443));
        request.extensions_mut().unwrap().insert(ConnectInfo(peer));
        by.extract(&request.body(()).unwrap()).unwrap();
        let told =
            name.map(|name| format!("client_ip.{name} peer=10.0.0.1 header=x-forwarded-for"));
        let mut events = log.told();
        // The first header that is missing is a warning, too, which has no name.
        events.retain(|event| event.starts_with("client_ip."));
        assert_eq!(events, Vec::from_iter(told));
    }
}
