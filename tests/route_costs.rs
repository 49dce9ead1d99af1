//! The table of costs by method and route, on a real router.

use axum::{Router, body::Body, extract::Request, routing::get};
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
async fn a_head_request_costs_what_the_get_does_whose_handler_it_runs() {
    let costs = || RouteCosts::new(1).on_method(http::Method::GET, "/report", 50);
    assert_eq!(remaining(costs(), "GET").await, "50");
    assert_eq!(remaining(costs(), "HEAD").await, "50");
    assert_eq!(remaining(costs(), "POST").await, "99");
    let own_entry = costs().on_method(http::Method::HEAD, "/report", 2);
    assert_eq!(remaining(own_entry, "HEAD").await, "98");
}

#[tokio::test]
async fn an_entry_for_a_method_goes_before_an_entry_for_any() {
    let costs = || {
        RouteCosts::new(1)
            .on_method(http::Method::POST, "/report", 20)
            .on("/report", 5)
    };
    assert_eq!(remaining(costs(), "POST").await, "80");
    assert_eq!(remaining(costs(), "GET").await, "95");
}

#[tokio::test]
async fn of_two_entries_for_one_method_the_last_one_counts_and_other_methods_keep_theirs() {
    let costs = || {
        RouteCosts::new(1)
            .on_method(http::Method::GET, "/report", 7)
            .on_method(http::Method::POST, "/report", 20)
            .on_method(http::Method::POST, "/report", 3)
    };
    assert_eq!(remaining(costs(), "POST").await, "97");
    assert_eq!(remaining(costs(), "GET").await, "93");
    let twice = costs().on("/report", 30).on("/report", 40);
    assert_eq!(remaining(twice, "DELETE").await, "60");
}
