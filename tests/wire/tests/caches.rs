//! No cache keeps what refuses or rejects a caller, in whatever form: over real connections, read
//! as they are.

use crate::loopback::{Answer, Http1, Http2, hello, limit, lines, serve};
use axum::Router;
use http::{Method, Request};
use tollgate::{
    Quota, RateLimitLayer, StoreErrorKind,
    algorithm::FixedWindow,
    key::{Global, Header},
    response::{Grpc, Http},
};

fn none() -> FixedWindow {
    FixedWindow::new(Quota::per_day(0)).named("none")
}

/// Apps that refuse, reject or cannot decide about every request, with the status and gRPC's code
/// for it.
fn that_answer_no() -> [(Router, u16, &'static str); 5] {
    let broken = |kind| {
        let broken = crate::support::broken(kind);
        hello().layer(RateLimitLayer::new(none(), broken, Global))
    };
    let no_key = Header::new("x-api-key");
    [
        (hello().layer(limit(none(), Global)), 429, "8"),
        (hello().layer(limit(none(), no_key)), 400, "3"),
        (broken(StoreErrorKind::Unavailable), 503, "14"),
        (broken(StoreErrorKind::Misconfigured), 500, "13"),
        (broken(StoreErrorKind::InvalidInput), 500, "13"),
    ]
}

/// Sends a request over HTTP/1.1 and over HTTP/2.
async fn both(app: &Router, method: &Method, content_type: &str) -> [Answer; 2] {
    let server = serve(app.clone()).await;
    let request = |uri| {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("content-type", content_type);
        request.body(()).unwrap()
    };
    let mut one = Http1::connect(server).await;
    let mut two = Http2::connect(server).await;
    [
        one.send(request("/")).await,
        two.send(request("http://localhost/")).await,
    ]
}

const GRPC: [&str; 4] = [
    "application/grpc",
    "application/grpc+proto",
    "application/grpc-web",
    "application/grpc-web-text",
];

#[tokio::test]
async fn a_request_that_is_no_post_is_told_the_status_and_not_an_empty_200_nor_a_reason() {
    for (app, status, _) in that_answer_no() {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE] {
            for answer in both(&app, &method, GRPC[0]).await {
                assert_eq!(answer.status(), status, "{method}");
                assert_eq!(lines(&answer, "cache-control"), ["no-store"], "{method}");
                assert!(lines(&answer, "grpc-status").is_empty(), "{method}");
                let is_problem = lines(&answer, "content-type") == ["application/problem+json"];
                assert_eq!(is_problem, status != 400, "{method}");
                // Nothing of what the store's error says.
                assert!(!format!("{answer:?}").contains("s3cret"));
            }
        }
    }
}

#[tokio::test]
async fn a_call_in_any_form_of_grpc_is_told_its_code_and_no_cache_keeps_that() {
    for (app, _, code) in that_answer_no() {
        for content_type in GRPC {
            for answer in both(&app, &Method::POST, content_type).await {
                assert_eq!(answer.status(), 200);
                assert_eq!(lines(&answer, "grpc-status"), [code]);
                assert_eq!(lines(&answer, "cache-control"), ["no-store"]);
                assert!(answer.body().is_empty());
                let details = lines(&answer, "grpc-status-details-bin");
                assert_eq!(details.is_empty(), code != "8");
                assert!(!format!("{answer:?}").contains("s3cret"));
            }
        }
    }
}

#[tokio::test]
async fn every_responder_says_no_store() {
    let none = || limit(none(), Global);
    let apps = [
        hello().layer(none().respond_with(Http::new().plain_text())),
        hello().layer(none().respond_with(Grpc::new())),
    ];
    for app in apps {
        for method in [Method::GET, Method::POST] {
            for answer in both(&app, &method, "application/json").await {
                assert_eq!(lines(&answer, "cache-control"), ["no-store"]);
            }
        }
    }
}

#[tokio::test]
async fn an_admitted_response_is_the_handler_s_to_keep_or_not() {
    let app = hello().layer(limit(FixedWindow::new(Quota::per_day(9)), Global));
    for answer in both(&app, &Method::GET, GRPC[0]).await {
        assert_eq!(answer.status(), 200);
        assert!(lines(&answer, "cache-control").is_empty());
    }
}
