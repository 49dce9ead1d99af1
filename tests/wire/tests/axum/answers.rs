//! What callers, handlers and outer layers see.

use axum::{
    Extension, Router,
    extract::Request,
    middleware::{self, Next},
    response::Response,
    routing::{any, get},
};
use tollgate::{
    Decision, OnStoreError, Quota, RateLimitLayer, StoreErrorKind,
    algorithm::{FixedWindow, TokenBucket},
    key::{Global, PeerIp},
    response::{Fields, Http},
};
use tollgate_wire::{
    Broken, Connection, Version, exchange, fresh_store, serve, serve_without_connect_info,
};

fn nothing() -> FixedWindow {
    FixedWindow::new(Quota::per_day(0)).named("nothing")
}

async fn connect(app: Router) -> (tollgate_wire::Server, Connection) {
    let server = serve(app).await;
    let connection = Connection::open(Version::Http1, server.address).await;
    (server, connection)
}

#[tokio::test]
async fn the_problem_of_a_refusal_says_its_real_status() {
    let one = FixedWindow::new(Quota::per_minute(1)).named("one");
    let (_, store) = fresh_store();
    let app = Router::new().route("/", get(|| async {}));
    let (_server, mut connection) =
        connect(app.layer(RateLimitLayer::new(one, store, Global))).await;
    assert_eq!(connection.get("/").await.status, 200);
    let reply = connection.get("/").await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.field("content-type"), "application/problem+json");
    assert_eq!(reply.field("cache-control"), "no-store");
    let problem: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["status"], reply.status.as_u16());
    assert_eq!(problem["violated-policies"], serde_json::json!(["one"]));
}

#[tokio::test]
async fn a_limit_of_nothing_refuses_all_and_announces_no_wait() {
    let limit = RateLimitLayer::new(nothing(), fresh_store().1, Global);
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let (_server, mut connection) = connect(app).await;
    let reply = connection.get("/").await;
    assert_eq!(reply.status, 429);
    assert!(!reply.headers.contains_key("retry-after"));
    assert_eq!(reply.field("ratelimit-policy"), "\"nothing\";q=0;w=86400");
    assert_eq!(reply.field("ratelimit"), "\"nothing\";r=0");
}

#[tokio::test]
async fn a_refused_head_has_the_length_of_the_body_of_get_and_no_body() {
    let limit = RateLimitLayer::new(nothing(), fresh_store().1, Global);
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let server = serve(app).await;
    for version in Version::ALL {
        let mut connection = Connection::open(version, server.address).await;
        let got = connection.get("/").await;
        let mut head = tollgate_wire::get("/");
        *head.method_mut() = http::Method::HEAD;
        let head = connection.send(head).await;
        assert_eq!((head.status, head.body.len()), (got.status, 0));
        assert_eq!(head.field("content-length"), got.body.len().to_string());
        assert_eq!(head.field("content-type"), got.field("content-type"));
        // The connection goes on, so nothing of the body is left on it.
        assert_eq!(connection.get("/").await.body, got.body);
    }
    let request = b"HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = exchange(server.address, request).await;
    assert!(answer.starts_with(b"HTTP/1.1 429 "));
    assert!(answer.ends_with(b"\r\n\r\n"), "{}", answer.escape_ascii());
}

#[tokio::test]
async fn of_two_layers_both_lines_are_kept_and_the_longer_wait() {
    let inner = TokenBucket::new(Quota::per_minute(1)).named("inner");
    let outer = FixedWindow::new(Quota::per_hour(2))
        .from_first_request()
        .named("outer");
    let app = Router::new()
        .route("/", get(|| async {}))
        .layer(RateLimitLayer::new(inner, fresh_store().1, Global))
        .layer(RateLimitLayer::new(outer, fresh_store().1, Global));
    let (_server, mut connection) = connect(app).await;

    let admitted = connection.get("/").await;
    assert_eq!(admitted.status, 200);
    let rates = ["\"inner\";r=0;t=60", "\"outer\";r=1;t=3600"];
    assert_eq!(admitted.lines("ratelimit"), rates);
    let policies = ["\"inner\";q=1;w=60", "\"outer\";q=2;w=3600"];
    assert_eq!(admitted.lines("ratelimit-policy"), policies);

    // The inner one refuses, and the outer one has nothing left: whoever waited a minute would be refused again.
    let refused = connection.get("/").await;
    assert_eq!(refused.status, 429);
    let rates = ["\"inner\";r=0;t=60", "\"outer\";r=0;t=3600"];
    assert_eq!(refused.lines("ratelimit"), rates);
    assert_eq!(refused.field("retry-after"), "3600");
}

#[tokio::test]
async fn fields_that_the_handler_has_set_are_kept() {
    let handler = || async { [("ratelimit", "\"mine\";r=3"), ("retry-after", "9")] };
    let limit = TokenBucket::new(Quota::per_minute(5)).named("ours");
    let limit = RateLimitLayer::new(limit, fresh_store().1, Global);
    let app = Router::new().route("/", get(handler)).layer(limit);
    let (_server, mut connection) = connect(app).await;
    let reply = connection.get("/").await;
    assert_eq!(
        reply.lines("ratelimit"),
        ["\"mine\";r=3", "\"ours\";r=4;t=12"]
    );
    assert_eq!(reply.field("retry-after"), "9");
}

#[tokio::test]
async fn a_tuple_tells_of_each_policy_and_on_a_refusal_of_those_that_refuse() {
    let both = (
        FixedWindow::new(Quota::per_minute(2))
            .from_first_request()
            .named("minute"),
        FixedWindow::new(Quota::per_day(9))
            .from_first_request()
            .named("day"),
    );
    let limit = RateLimitLayer::new(both, fresh_store().1, Global);
    let app = Router::new().route("/", get(|| async {})).layer(limit);
    let (_server, mut connection) = connect(app).await;
    let admitted = connection.get("/").await;
    let told = "\"minute\";r=1;t=60, \"day\";r=8;t=86400";
    assert_eq!(admitted.field("ratelimit"), told);
    connection.get("/").await;
    let refused = connection.get("/").await;
    assert_eq!(refused.field("ratelimit"), "\"minute\";r=0;t=60");
    assert_eq!(
        refused.field("ratelimit-policy"),
        "\"minute\";q=2;w=60, \"day\";q=9;w=86400"
    );
    assert_eq!(refused.field("retry-after"), "60");
}

#[tokio::test]
async fn a_handler_reads_the_decision_that_is_exposed_and_no_other() {
    async fn left(decision: Option<Extension<Decision>>) -> String {
        decision.map_or("hidden".to_owned(), |decision| {
            format!("{} of {}", decision.remaining(), decision.limit())
        })
    }
    let hidden = RateLimitLayer::new(FixedWindow::new(Quota::per_day(3)), fresh_store().1, Global);
    let exposed = hidden.clone().expose_decision();
    let quiet = exposed
        .clone()
        .respond_with(Http::new().fields(Fields::Off));
    let app = Router::new()
        .route("/hidden", get(left).layer(hidden))
        .route("/exposed", get(left).layer(exposed))
        .route("/quiet", get(left).layer(quiet));
    let (_server, mut connection) = connect(app).await;
    assert_eq!(connection.get("/hidden").await.body, "hidden");
    assert_eq!(connection.get("/exposed").await.body, "1 of 3");
    let quiet = connection.get("/quiet").await;
    assert_eq!(quiet.body, "0 of 3");
    assert!(!quiet.headers.contains_key("ratelimit"));
}

#[tokio::test]
async fn an_outer_layer_finds_the_decision_in_a_response_that_refuses() {
    async fn tell(request: Request, next: Next) -> Response {
        let mut response = next.run(request).await;
        let told = response.extensions().get::<Decision>().map(|decision| {
            let told = format!("{} {}", decision.policy(), decision.is_admitted());
            told.try_into().unwrap()
        });
        if let Some(told) = told {
            response.headers_mut().insert("x-decision", told);
        }
        response
    }
    let limit = FixedWindow::new(Quota::per_day(1)).named("one");
    let app = Router::new()
        .route("/", get(|| async {}))
        .layer(RateLimitLayer::new(limit, fresh_store().1, Global))
        .layer(middleware::from_fn(tell));
    let (_server, mut connection) = connect(app).await;
    let admitted = connection.get("/").await;
    assert!(!admitted.headers.contains_key("x-decision"));
    let refused = connection.get("/").await;
    assert_eq!(refused.field("x-decision"), "one false");
}

#[tokio::test]
async fn an_exempt_request_passes_without_a_key_a_count_or_a_field() {
    let limit = FixedWindow::new(Quota::per_day(1));
    let limit = RateLimitLayer::new(limit, fresh_store().1, PeerIp::new())
        .exempt(|request: &Request| request.uri().path() == "/health");
    let app = Router::new()
        .route("/{path}", any(|| async {}))
        .layer(limit);
    let (_server, mut connection) = connect(app.clone()).await;
    for _ in 0..3 {
        let reply = connection.get("/health").await;
        assert_eq!(reply.status, 200);
        assert!(!reply.headers.contains_key("ratelimit"));
    }
    assert_eq!(connection.get("/other").await.status, 200);
    assert_eq!(connection.get("/other").await.status, 429);
    assert_eq!(connection.get("/health").await.status, 200);

    let server = serve_without_connect_info(app).await;
    let mut connection = Connection::open(Version::Http1, server.address).await;
    assert_eq!(connection.get("/health").await.status, 200);
    assert_eq!(connection.get("/other").await.status, 500);
}

#[tokio::test]
async fn a_store_that_is_down_is_a_503_or_open_and_never_an_invented_number() {
    let broken = Broken(StoreErrorKind::Unavailable);
    let closed = RateLimitLayer::new(nothing(), broken, Global);
    let open = closed.clone().on_store_error(OnStoreError::Admit);
    let app = Router::new()
        .route("/closed", get(|| async {}).layer(closed))
        .route("/open", get(|| async { "open" }).layer(open));
    let (_server, mut connection) = connect(app).await;
    let closed = connection.get("/closed").await;
    assert_eq!(closed.status, 503);
    let problem: serde_json::Value = serde_json::from_slice(&closed.body).unwrap();
    assert_eq!(problem["status"], 503);
    let open = connection.get("/open").await;
    assert_eq!((open.status.as_u16(), &*open.body), (200, &b"open"[..]));
    for reply in [closed, open] {
        for name in ["ratelimit", "ratelimit-policy", "retry-after"] {
            assert!(!reply.headers.contains_key(name), "{name}");
        }
        assert!(!format!("{reply:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn a_response_that_has_no_body_gets_fields_and_still_no_body() {
    use http::StatusCode;
    let limit = RateLimitLayer::new(
        FixedWindow::new(Quota::per_day(9)).named("day"),
        fresh_store().1,
        Global,
    );
    let app = Router::new()
        .route("/204", get(|| async { StatusCode::NO_CONTENT }))
        .route("/304", get(|| async { StatusCode::NOT_MODIFIED }))
        .route(
            "/302",
            get(|| async { (StatusCode::FOUND, [("location", "/204")]) }),
        )
        .layer(limit);
    let server = serve(app).await;
    for (path, status) in [("/204", 204), ("/304", 304), ("/302", 302)] {
        for version in Version::ALL {
            let mut connection = Connection::open(version, server.address).await;
            let reply = connection.get(path).await;
            assert_eq!((reply.status.as_u16(), reply.body.len()), (status, 0));
            assert!(reply.field("ratelimit").starts_with("\"day\";r="));
        }
    }
}
