//! Unit tests of the answers to gRPC calls.

use std::{convert::Infallible, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use http::HeaderValue;

use super::*;
use crate::{
    error::{StoreError, StoreErrorKind},
    response::{
        Reason,
        refusal::MAX_TEXT_LEN,
        tests::{admitted, hopeless, refused_for},
    },
};

fn request(content_type: &str) -> Request<()> {
    let request = Request::post("/pkg.Service/Call");
    request
        .header("content-type", content_type)
        .body(())
        .unwrap()
}

fn refused(content_type: &str, decision: Decision) -> Response<Bytes> {
    let Ok::<_, Infallible>(response) = Grpc::new().answer(
        &request(content_type),
        Refusal::new(Reason::Limited(&decision)),
    );
    response
}

#[test]
fn a_refused_call_gets_resource_exhausted_in_the_header_fields_and_no_body() {
    let response = refused(
        "application/grpc",
        refused_for(Duration::from_micros(1_500_000)),
    );
    assert_eq!(response.status(), 200);
    assert!(response.body().is_empty());
    let mut fields: Vec<_> = response.headers().iter().collect();
    fields.sort_by_key(|(name, _)| name.as_str());
    // The details were encoded by another program, from the .proto files.
    let details = "CAgSM1RoZSByYXRlIGxpbWl0IGlzIGV4Y2VlZGVkLiBUcnkgYWdhaW4gaW4gMiBzZWNvbmRzLho2Cih0\
                   eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgoKCAgBEIDKte4BGlMKK3R5cGUu\
                   Z29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJwYy5RdW90YUZhaWx1cmUSJAoiCgNhcGkSFHRoZSBsaW1pdCBp\
                   cyB1c2VkIHVwKgNhcGk4KA";
    let expected = [
        ("cache-control", "no-store"),
        ("content-type", "application/grpc"),
        (
            "grpc-message",
            "The rate limit is exceeded. Try again in 2 seconds.",
        ),
        ("grpc-retry-pushback-ms", "1500"),
        ("grpc-status", "8"),
        ("grpc-status-details-bin", details),
        ("ratelimit", r#""api";r=0;t=2"#),
        ("ratelimit-policy", r#""api";q=40;w=2"#),
        ("retry-after", "2"),
    ];
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), text(value)))
        .collect();
    let expected = expected.map(|(name, value)| (name, value.to_owned()));
    assert_eq!(fields, expected);
}

#[test]
fn a_call_that_can_never_fit_is_told_not_to_try_again_and_has_no_retry_info() {
    let response = refused("application/grpc", hopeless());
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
    assert!(!response.headers().contains_key("retry-after"));
    let details = response.headers()["grpc-status-details-bin"].as_bytes();
    let details = STANDARD_NO_PAD.decode(details).unwrap();
    let holds = |text: &[u8]| details.windows(text.len()).any(|window| window == text);
    assert!(holds(b"google.rpc.QuotaFailure") && !holds(b"google.rpc.RetryInfo"));
    assert!(holds(b"the cost is more than the limit"));
}

#[test]
fn a_grpc_web_call_is_answered_with_its_own_content_type() {
    for (asked, answered) in [
        ("application/grpc-web", "application/grpc-web+proto"),
        (
            "application/grpc-web-text",
            "application/grpc-web-text+proto",
        ),
        ("application/json", "application/grpc"),
    ] {
        let response = refused(asked, hopeless());
        assert_eq!(response.headers()["content-type"], answered);
        assert_eq!(response.headers()["grpc-status"], "8");
    }
}

#[test]
fn a_failure_that_no_retry_fixes_is_internal_and_not_unavailable() {
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::InvalidInput] {
        let error = StoreError::new(kind, "redis://s3cret");
        let request = request("application/grpc");
        let Ok::<Response<Bytes>, Infallible>(response) =
            Grpc::new().answer(&request, Refusal::new(Reason::StoreFailed(error.kind())));
        assert_eq!(response.headers()["grpc-status"], "13");
        assert!(!format!("{response:?}").contains("s3cret"));
    }
}

#[test]
fn a_store_that_cannot_decide_is_unavailable_without_numbers_or_reasons() {
    let error = StoreError::new(StoreErrorKind::Unavailable, "redis://s3cret");
    let request = request("application/grpc");
    let Ok::<Response<Bytes>, Infallible>(response) =
        Grpc::new().answer(&request, Refusal::new(Reason::StoreFailed(error.kind())));
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["grpc-status"], "14");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers().len(), 4, "{:?}", response.headers());
    assert!(!format!("{response:?}").contains("s3cret"));
}

#[test]
fn the_decision_rides_along_and_fields_that_are_off_are_not_sent() {
    let request = request("application/grpc");
    let responder = Grpc::new().fields(Fields::Off);
    let Ok::<Response<Bytes>, Infallible>(response) =
        responder.answer(&request, Refusal::new(Reason::Limited(&hopeless())));
    assert_eq!(response.extensions().get(), Some(&hopeless()));
    assert!(!response.headers().contains_key("ratelimit"));
    assert!(!Respond::<Request<()>, Response<Bytes>, Infallible>::annotates(&responder));
}

#[test]
fn an_admitted_call_has_the_fields_among_its_metadata() {
    let mut response = Response::new(Bytes::new());
    Respond::<Request<()>, _, Infallible>::annotate(&Grpc::new(), &admitted(), &mut response);
    assert_eq!(response.headers()["ratelimit"], r#""api";r=39;t=1"#);
}

#[cfg(feature = "tonic")]
#[test]
fn tonic_reads_the_status_and_its_details() {
    let response = refused("application/grpc", hopeless());
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let message = "The request costs more than can ever be let through at once.";
    assert_eq!(status.message(), message);
    assert!(status.details().starts_with(b"\x08\x08\x12\x3CThe request"));
}

fn rejected(status: u16, content_type: &str, text: &'static str) -> Response<Bytes> {
    let rejection = Response::builder()
        .status(status)
        .header("content-type", content_type);
    let rejection = rejection.body(Bytes::from_static(text.as_bytes())).unwrap();
    let refusal = Refusal::new(Reason::Rejected(&rejection));
    Grpc::new().response(GRPC, &refusal)
}

#[test]
fn the_pushback_is_rounded_up_to_milliseconds_and_stays_an_int32() {
    let pushback = |micros| pushback_millis(&refused_for(Duration::from_micros(micros)));
    assert_eq!([1, 1_000, 1_001].map(pushback), [1, 1, 2].map(Some));
    assert_eq!(pushback(i32::MAX as u64 * 1_000), Some(i32::MAX));
    assert_eq!(pushback(i32::MAX as u64 * 1_000 + 1), Some(i32::MAX));
}

#[test]
fn a_rejection_becomes_the_code_for_its_status() {
    for (status, code) in [
        (400, "3"),
        (401, "16"),
        (403, "7"),
        (404, "5"),
        (418, "2"),
        (429, "8"),
        (500, "13"),
        (503, "14"),
    ] {
        let response = rejected(status, "text/plain", "no");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], code, "{status}");
        assert_eq!(response.headers()["cache-control"], "no-store", "{status}");
        assert!(response.body().is_empty());
    }
}

#[test]
fn the_message_of_a_rejection_is_its_plain_text_percent_encoded() {
    let message = |content_type, text| {
        let response = rejected(400, content_type, text);
        response.headers()["grpc-message"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(message("text/plain; charset=utf-8", "no key\n"), "no key");
    assert_eq!(
        message("text/plain", "100 % ü\r\nx"),
        "100 %25 %C3%BC%0D%0Ax"
    );
    assert_eq!(message("application/json", "{}"), "Bad Request");
    assert_eq!(message("text/plain", ""), "Bad Request");
    const TEXT: &str = match std::str::from_utf8(&[b'x'; MAX_TEXT_LEN + 1]) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    };
    let longest = &TEXT[1..];
    assert_eq!(message("text/plain", longest), longest);
    assert_eq!(message("text/plain", TEXT), "Bad Request");
}

#[test]
fn a_post_is_answered_in_the_protocol_of_its_content_type() {
    let answer = |content_type| {
        let request = Request::post("/").header(header::CONTENT_TYPE, content_type);
        content_type_of_call(&request.body(()).unwrap())
    };
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "Application/gRPC;v=1",
    ] {
        assert_eq!(answer(content_type), Some(GRPC), "{content_type}");
    }
    for content_type in [
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/grpc-web; v=1",
    ] {
        assert_eq!(
            answer(content_type),
            Some("application/grpc-web+proto"),
            "{content_type}"
        );
    }
    for content_type in [
        "application/grpc-web-text",
        "application/grpc-web-text+proto",
    ] {
        assert_eq!(
            answer(content_type),
            Some("application/grpc-web-text+proto"),
            "{content_type}"
        );
    }
    for content_type in [
        "",
        "application/json",
        "application/grpcx",
        "application/grpc-webs",
        "application/grpc-web-texts",
        "text/plain",
    ] {
        assert_eq!(answer(content_type), None, "{content_type}");
    }
    assert_eq!(
        content_type_of_call(&Request::post("/").body(()).unwrap()),
        None
    );
}

#[test]
fn a_request_that_is_no_post_is_not_grpc_whatever_its_content_type() {
    for method in [
        Method::GET,
        Method::HEAD,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::CONNECT,
        Method::TRACE,
        Method::from_bytes(b"post").unwrap(),
    ] {
        for content_type in [
            "application/grpc",
            "application/grpc-web",
            "application/grpc-web-text",
        ] {
            let request = Request::builder().method(&method);
            let request = request.header(header::CONTENT_TYPE, content_type);
            assert_eq!(
                content_type_of_call(&request.body(()).unwrap()),
                None,
                "{method}"
            );
        }
    }
}
