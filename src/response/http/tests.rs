//! What callers receive over HTTP.

use std::{convert::Infallible, time::Duration};

use http::{HeaderValue, Method};

use super::*;
use crate::{
    algorithm::Judgement,
    error::{StoreError, StoreErrorKind},
    response::{
        Grpc,
        tests::{admitted, both, refused_for},
    },
};

const WAIT: Duration = Duration::from_millis(1_500);

fn request(method: Method) -> Request<()> {
    let request = Request::builder()
        .method(method)
        .uri("/secret?token=s3cret");
    request.header("authorization", "s3cret").body(()).unwrap()
}

fn refused<R: Render>(http: Http<R>, method: Method, decision: Decision) -> Response<Bytes> {
    let Ok::<_, Infallible>(response) =
        http.answer(&request(method), Refusal::new(Reason::Limited(&decision)));
    response
}

fn annotated(http: Http, mut response: Response<Bytes>, decision: &Decision) -> Response<Bytes> {
    Respond::<Request<()>, _, Infallible>::annotate(&http, decision, &mut response);
    response
}

#[test]
fn a_refusal_is_a_429_that_no_cache_keeps_with_the_wait_the_fields_and_a_problem() {
    let response = refused(Http::new(), Method::GET, refused_for(WAIT));
    assert_eq!(response.status(), 429);
    let headers = response.headers();
    assert_eq!(headers["retry-after"], "2");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["ratelimit-policy"], r#""api";q=40;w=2"#);
    assert_eq!(headers["ratelimit"], r#""api";r=0;t=2"#);
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(headers.len(), 5);
    assert_eq!(response.extensions().get(), Some(&refused_for(WAIT)));
}

#[test]
fn two_violated_policies_are_both_named_in_their_order_with_the_longer_wait() {
    let [api, daily] = [500_000, 87_000_000].map(Judgement::RefusedForMicros);
    let response = refused(Http::new(), Method::GET, both(api, daily));
    assert_eq!(response.headers()["retry-after"], "87");
    assert_eq!(
        response.headers()["ratelimit"],
        r#""api";r=0;t=1, "daily";r=0;t=87"#
    );
    let body = std::str::from_utf8(response.body()).unwrap();
    assert!(
        body.ends_with(r#""violated-policies":["api","daily"]}"#),
        "{body}"
    );
}

#[test]
fn the_answer_to_head_has_the_length_of_the_body_and_not_the_body() {
    let get = refused(Http::new(), Method::GET, refused_for(WAIT));
    let head = refused(Http::new(), Method::HEAD, refused_for(WAIT));
    assert!(head.body().is_empty());
    assert_eq!(
        head.headers()["content-length"],
        get.body().len().to_string()
    );
    let mut without_length = head.headers().clone();
    without_length.remove("content-length");
    assert_eq!(&without_length, get.headers());
}

#[test]
fn an_admitted_response_gets_the_fields_and_nothing_else_whatever_it_is() {
    for status in [101, 200, 204, 301, 304, 404] {
        let inner = Response::builder()
            .status(status)
            .body(Bytes::new())
            .unwrap();
        let response = annotated(Http::new(), inner, &admitted());
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["ratelimit"], r#""api";r=39;t=1"#);
        assert_eq!(response.headers().len(), 2);
        assert!(response.body().is_empty() && response.extensions().is_empty());
    }
}

#[test]
fn the_refusal_of_an_inner_layer_keeps_its_lines_and_the_longer_of_both_waits() {
    for (wait, told) in [(500, "2"), (9_500, "10")] {
        let inner = refused(Http::new(), Method::GET, refused_for(WAIT));
        let outer = refused_for(Duration::from_millis(wait));
        let response = annotated(Http::new(), inner, &outer);
        assert_eq!(response.headers().get_all("ratelimit").iter().count(), 2);
        assert_eq!(
            response
                .headers()
                .get_all("ratelimit-policy")
                .iter()
                .count(),
            2
        );
        assert_eq!(response.headers().get_all("retry-after").iter().count(), 1);
        assert_eq!(response.headers()["retry-after"], told);
    }
}

#[test]
fn nothing_is_annotated_if_fields_are_off_but_a_refusal_still_has_its_wait() {
    let off = Http::new().fields(Fields::Off);
    assert!(!Respond::<Request<()>, Response<Bytes>, Infallible>::annotates(&off));
    let response = refused(off, Method::GET, refused_for(WAIT));
    assert!(!response.headers().contains_key("ratelimit"));
    assert_eq!(response.headers()["retry-after"], "2");
}

#[test]
fn a_failure_that_no_retry_fixes_is_a_500_and_not_a_503() {
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::InvalidInput] {
        let error = StoreError::new(kind, "redis://s3cret");
        let Ok::<Response<Bytes>, Infallible>(response) = Http::new().answer(
            &request(Method::GET),
            Refusal::new(Reason::StoreFailed(error.kind())),
        );
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert!(!format!("{response:?}").contains("s3cret"));
    }
}

#[test]
fn the_store_that_cannot_decide_is_a_503_without_numbers_or_reasons() {
    let error = StoreError::new(StoreErrorKind::Unavailable, "redis://s3cret");
    let answer = |method| {
        let Ok::<Response<Bytes>, Infallible>(response) = Http::new().answer(
            &request(method),
            Refusal::new(Reason::StoreFailed(error.kind())),
        );
        response
    };
    let response = answer(Method::GET);
    assert_eq!(response.status(), 503);
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers().len(), 2);
    assert!(!format!("{response:?}").contains("s3cret"));
    assert!(answer(Method::HEAD).body().is_empty());
}

#[test]
fn a_rejection_is_sent_as_it_is_and_no_cache_keeps_it_unless_it_says_so() {
    let rejected = |rejection: http::response::Builder| {
        let rejection = rejection.status(400).body("no key".into()).unwrap();
        let Ok::<Response<Bytes>, Infallible>(response) = Http::new().answer(
            &request(Method::GET),
            Refusal::new(Reason::Rejected(&rejection)),
        );
        assert_eq!(response.status(), 400);
        assert_eq!(response.body(), "no key");
        assert_eq!(response.headers().len(), 1);
        response.headers()["cache-control"].clone()
    };
    assert_eq!(rejected(Response::builder()), "no-store");
    let own = Response::builder().header("cache-control", "private");
    assert_eq!(rejected(own), "private");
}

#[test]
fn a_grpc_request_is_answered_as_the_grpc_responder_does() {
    let mut request = request(Method::POST);
    let content_type = HeaderValue::from_static("application/grpc-web");
    request.headers_mut().insert("content-type", content_type);
    let Ok::<Response<Bytes>, Infallible>(ours) = Http::new()
        .plain_text()
        .answer(&request, Refusal::new(Reason::Limited(&refused_for(WAIT))));
    let Ok::<Response<Bytes>, Infallible>(grpc) =
        Grpc::new().answer(&request, Refusal::new(Reason::Limited(&refused_for(WAIT))));
    assert_eq!(
        (ours.status(), ours.headers()),
        (grpc.status(), grpc.headers())
    );
}

#[test]
fn a_request_that_is_no_post_is_answered_in_http_although_its_content_type_is_grpc_s() {
    for method in [Method::GET, Method::PUT, Method::CONNECT] {
        let mut request = request(method);
        let content_type = HeaderValue::from_static("application/grpc");
        request.headers_mut().insert("content-type", content_type);
        let down = StoreError::new(StoreErrorKind::Unavailable, "down");
        let rejection = Response::builder().status(400).body(Bytes::new()).unwrap();
        let answers: [Result<Response<Bytes>, Infallible>; 3] = [
            Http::new().answer(&request, Refusal::new(Reason::Limited(&refused_for(WAIT)))),
            Http::new().answer(&request, Refusal::new(Reason::Rejected(&rejection))),
            Http::new().answer(&request, Refusal::new(Reason::StoreFailed(down.kind()))),
        ];
        for (answer, status) in answers.into_iter().zip([429, 400, 503]) {
            let Ok(answer) = answer;
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()["cache-control"], "no-store");
            assert!(!answer.headers().contains_key("grpc-status"));
        }
    }
}

#[test]
fn a_handler_can_render_what_it_has_decided_itself() {
    let refused: Response<Bytes> = Http::new().response(&refused_for(WAIT));
    assert_eq!(refused.status(), 429);
    let admitted: Response<Bytes> = Http::new().response(&admitted());
    assert_eq!(
        (admitted.status().as_u16(), admitted.body().len()),
        (200, 0)
    );
    assert!(admitted.headers().contains_key("ratelimit"));
}

#[test]
fn a_setting_stays_whatever_is_set_after_it() {
    let typed = || Http::new().problem_type("urn:own");
    let own = [
        Http::new()
            .fields(Fields::XRateLimit)
            .problem_type("urn:own"),
        typed().fields(Fields::XRateLimit),
    ];
    for http in own {
        let response = refused(http, Method::GET, refused_for(WAIT));
        assert!(response.headers().contains_key("x-ratelimit-limit"));
        assert!(!response.headers().contains_key("ratelimit"));
        assert!(response.body().starts_with(br#"{"type":"urn:own","#));
    }
    let plain = [
        typed().fields(Fields::XRateLimit).plain_text(),
        typed().plain_text().fields(Fields::XRateLimit),
    ];
    for http in plain {
        let response = refused(http, Method::GET, refused_for(WAIT));
        assert!(response.headers().contains_key("x-ratelimit-limit"));
        assert!(!response.headers().contains_key("ratelimit"));
        assert!(!response.body().starts_with(b"{"));
    }
}
