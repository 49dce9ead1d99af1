//! An API whose refusals all have one form of its own, whatever the reason.

use crate::loopback::{Answer, Http1, hello, limit, lines, serve};
use axum::Extension;
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use serde_json::{Value, json};
use tollgate::{
    Quota, RateLimitLayer, StoreErrorKind,
    algorithm::FixedWindow,
    key::{Global, Header, PeerIp, from_fn},
    response::{Fields, Http, Refusal},
};
use tower_http::cors::CorsLayer;

use crate::support::broken;

/// One function for all of them.
fn in_json(refusal: &Refusal<'_>) -> Response<Bytes> {
    let path = refusal.uri().map(|uri| uri.path().to_owned());
    let request_id = refusal.extensions().and_then(|all| all.get::<RequestId>());
    let json = json!({
        "error": refusal.message(),
        "path": path,
        "request": request_id.map(|id| id.0),
    });
    let response = Response::builder().status(refusal.status());
    let response = response.header("content-type", "application/json");
    response.body(Bytes::from(json.to_string())).unwrap()
}

#[derive(Clone, Copy)]
struct RequestId(u32);

fn one_a_day() -> FixedWindow {
    FixedWindow::new(Quota::per_day(1)).from_first_request()
}

fn read(answer: &Answer) -> Value {
    assert_eq!(lines(answer, "content-type"), ["application/json"]);
    assert_eq!(lines(answer, "cache-control"), ["no-store"]);
    let read: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(read["path"], "/");
    assert_eq!(read["request"], 7);
    read["error"].clone()
}

#[tokio::test]
async fn a_429_a_400_and_a_503_have_the_same_form_from_one_function() {
    let answers = || Http::new().render(in_json);
    let limited = limit(one_a_day(), Global).respond_with(answers());
    let keyless = limit(one_a_day(), Header::new("x-api-key")).respond_with(answers());
    let broken = |kind| {
        let broken = RateLimitLayer::new(one_a_day(), broken(kind), Global);
        hello().layer(broken.respond_with(answers()))
    };
    let exceeded = "The rate limit is exceeded. Try again in 86400 seconds.";
    let lacks = "the request lacks a required header field: x-api-key";
    let unavailable = "Rate limiting is temporarily unavailable.";
    let uncounted = "The request could not be counted.";
    for (app, status, error) in [
        (hello().layer(limited), 429, exceeded),
        (hello().layer(keyless), 400, lacks),
        (broken(StoreErrorKind::Unavailable), 503, unavailable),
        (broken(StoreErrorKind::Misconfigured), 500, uncounted),
    ] {
        let server = serve(app.layer(Extension(RequestId(7)))).await;
        let mut client = Http1::connect(server).await;
        let mut answer = client.get("/").await;
        if status == 429 {
            assert_eq!(answer.status(), 200);
            answer = client.get("/").await;
            assert_eq!(lines(&answer, "retry-after"), ["86400"]);
        }
        assert_eq!(answer.status(), status);
        assert_eq!(read(&answer), error);
    }
}

#[expect(
    clippy::result_large_err,
    reason = "a response of the user's own, with all its fields, is the rejection"
)]
#[tokio::test]
async fn the_fields_of_a_rejection_stay_and_its_body_is_the_renderers() {
    let by = from_fn(|_: &Request<axum::body::Body>| {
        let rejection = Response::builder().status(401);
        let rejection = rejection.header("www-authenticate", "Bearer");
        let rejection = rejection.header("www-authenticate", "Basic");
        let rejection = rejection.header("content-language", "en");
        let rejection = rejection.header("content-type", "text/plain");
        Err::<Option<u32>, _>(rejection.body(Bytes::from("sign in first")).unwrap())
    });
    let limited = limit(one_a_day(), by).respond_with(Http::new().render(in_json));
    let server = serve(hello().layer(limited).layer(Extension(RequestId(7)))).await;
    let answer = Http1::connect(server).await.get("/").await;
    assert_eq!(answer.status(), 401);
    assert_eq!(lines(&answer, "www-authenticate"), ["Bearer", "Basic"]);
    assert_eq!(lines(&answer, "content-language"), [] as [&str; 0]);
    assert_eq!(read(&answer), "sign in first");
}

#[tokio::test]
async fn a_cors_layer_that_is_told_the_names_lets_scripts_read_what_is_sent() {
    for fields in Fields::ALL {
        let limited = limit(one_a_day(), PeerIp::new());
        let limited = limited.respond_with(Http::new().fields(fields));
        let cors = CorsLayer::new().expose_headers(fields.names().to_vec());
        let server = serve(hello().layer(limited).layer(cors)).await;
        let mut client = Http1::connect(server).await;
        for status in [200, 429] {
            let mut request = Request::get("/").body(()).unwrap();
            let origin = HeaderValue::from_static("https://example.com");
            request.headers_mut().insert("origin", origin);
            let answer = client.send(request).await;
            assert_eq!(answer.status(), status);
            let exposed = lines(&answer, "access-control-expose-headers").join(",");
            let exposed: Vec<_> = exposed.split(',').map(str::trim).collect();
            let sent = answer.headers().keys().map(|name| name.as_str());
            let ours = sent.filter(|name| name.contains("ratelimit") || *name == "retry-after");
            let ours: Vec<_> = ours.collect();
            let are_exposed = ours.iter().all(|name| exposed.contains(name));
            assert!(are_exposed, "{ours:?} {exposed:?}");
            let told = fields != Fields::Off || status == 429;
            assert_eq!(!ours.is_empty(), told, "{fields:?}");
        }
    }
}
