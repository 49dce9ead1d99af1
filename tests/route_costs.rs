//! The table of costs by method and route, on a real router.

use axum::{Router, body::Body, extract::Request, http::Method, routing::get};
use tollgate::{
    Quota, RateLimitLayer, RouteCosts, algorithm::FixedWindow, key::Global, store::LocalStore,
};
use tower::ServiceExt;

async fn remaining(costs: RouteCosts, method: &str) -> String {
    let quota = FixedWindow::new(Quota::per_day(100)).named("daily");
    let limit = RateLimitLayer::new(quota, LocalStore::new(), Global).cost(costs);
    let app: Router = Router::new()
        .route("/report", get(|| async { "dear" }).post(|| async {}))
        .layer(limit);
    let request = Request::builder().method(method).uri("/report");
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await;
    let fields = response.unwrap().headers()["ratelimit"].clone();
    let field = fields.to_str().unwrap();
    field.split([';', '=']).nth(2).unwrap().to_owned()
}

#[tokio::test]
async fn the_last_entry_for_the_method_or_else_for_any_counts_and_head_costs_what_get_does() {
    let get = || RouteCosts::new(1).on_method(Method::GET, "/report", 50);
    let both = || get().on_method(Method::POST, "/report", 20);
    let any = || both().on("/report", 30).on("/report", 40);
    for (costs, method, left) in [
        (get(), "GET", "50"),
        (get(), "HEAD", "50"),
        (get(), "POST", "99"),
        (get().on_method(Method::HEAD, "/report", 2), "HEAD", "98"),
        (any(), "POST", "80"),
        (any(), "GET", "50"),
        (any(), "DELETE", "60"),
        (both().on_method(Method::POST, "/report", 3), "POST", "97"),
        (both().on_method(Method::POST, "/report", 3), "GET", "50"),
    ] {
        assert_eq!(remaining(costs, method).await, left, "{method}");
    }
}
