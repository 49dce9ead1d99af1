//! One quota, several costs: a search costs as much as five reads, and an upload ten units.
//!
//! It shows two ways to set costs: a table by method and route, and `.cost(..)` on a clone of the
//! layer.
//!
//! ```text
//! cargo run --example axum_per_route_cost
//! ```

use std::error::Error;

use axum::{Router, body::Body, response::Response, routing::get};
use http::{Method, Request};
use tollgate::{Quota, RateLimitLayer, RouteCosts};
use tollgate::{algorithm::TokenBucket, key::Header, store::LocalStore};
use tower::ServiceExt;

/// A table: the routes need not know what they cost.
fn by_table() -> Router {
    let costs = RouteCosts::new(1)
        .on("/search", 5)
        .on_method(Method::POST, "/files/{name}", 10);
    let quota = TokenBucket::new(Quota::per_day(20)).named("daily");
    let limit = RateLimitLayer::new(quota, LocalStore::new(), Header::new("x-api-key"));
    Router::new()
        .route("/read", get(|| async {}))
        .route("/search", get(|| async {}))
        .route("/files/{name}", get(|| async {}).post(|| async {}))
        .layer(limit.cost(costs))
}

/// Clones of one layer: each route has its own cost, and all of them share the buckets.
fn by_clone() -> Router {
    let quota = TokenBucket::new(Quota::per_day(20)).named("daily");
    let limit = RateLimitLayer::new(quota, LocalStore::new(), Header::new("x-api-key"));
    let read = get(|| async {}).layer(limit.clone());
    let search = get(|| async {}).layer(limit.clone().cost(5));
    let files = get(|| async {})
        .layer(limit.clone())
        .merge(axum::routing::post(|| async {}).layer(limit.cost(10)));
    Router::new()
        .route("/read", read)
        .route("/search", search)
        .route("/files/{name}", files)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // All of these are taken from the same twenty units.
    let visit = [
        (Method::GET, "/read", 200, 19),
        (Method::GET, "/search", 200, 14),
        (Method::POST, "/files/cat.png", 200, 4),
        (Method::GET, "/search", 429, 4), // 5 do not fit, so nothing is charged
        (Method::GET, "/files/cat.png", 200, 3),
    ];
    for (way, app) in [("a table", by_table()), ("clones of the layer", by_clone())] {
        println!("{way}:");
        for (method, path, status, remaining) in &visit {
            let response = send(&app, method, path).await?;
            let field = response.headers()["ratelimit"].to_str()?;
            println!(
                "  {:<4} {path:<15} {}  {field}",
                method.as_str(),
                response.status()
            );
            assert_eq!(response.status(), *status);
            assert!(field.starts_with(&format!(r#""daily";r={remaining};"#)));
        }
    }
    Ok(())
}

async fn send(app: &Router, method: &Method, path: &str) -> Result<Response, Box<dyn Error>> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("x-api-key", "ann's").body(Body::empty())?;
    Ok(app.clone().oneshot(request).await?)
}
