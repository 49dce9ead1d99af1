//! Unit tests of the answers to gRPC calls.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;

use super::*;
use crate::response::{
    Reason,
    refusal::MAX_TEXT_LEN,
    tests::{hopeless, refused_for},
};

fn request(content_type: &str) -> Request<()> {
    let request = Request::post("/pkg.Service/Call");
    request
        .header("content-type", content_type)
        .body(())
        .unwrap()
}

#[test]
fn a_call_that_can_never_fit_is_told_not_to_try_again_and_fields_that_are_off_are_not_sent() {
    // Who calls with something else, and asked for this answer, gets gRPC.
    let request = request("application/json");
    let responder = Grpc::new().fields(Fields::Off);
    let Ok::<Response<Bytes>, Infallible>(response) =
        responder.answer(&request, Refusal::new(Reason::Limited(&hopeless())));
    let headers = response.headers();
    assert_eq!(headers["content-type"], "application/grpc");
    let message = "The request costs more than can ever be let through at once.";
    assert_eq!(headers["grpc-message"], message);
    assert_eq!(headers["grpc-retry-pushback-ms"], "-1");
    assert!(!headers.contains_key("retry-after") && !headers.contains_key("ratelimit"));
    assert_eq!(response.extensions().get(), Some(&hopeless()));
    assert!(!Respond::<Request<()>, Response<Bytes>, Infallible>::annotates(&responder));
}

/// The answer for a rejection that has fields of gRPC's own.
fn rejected(status: u16, content_type: &str, text: &'static str) -> Response<Bytes> {
    let rejection = Response::builder()
        .status(status)
        .header("content-type", content_type)
        .header("grpc-status", "0")
        .header("grpc-status-details-bin", "!!!");
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

/// tonic's client panics on details that are no base64, so nobody but us may write them.
#[test]
fn a_rejection_becomes_the_code_for_its_status_and_its_own_details_are_not_passed_on() {
    let statuses = [400, 401, 403, 404, 418, 429, 500, 503];
    let codes = ["3", "16", "7", "5", "2", "8", "13", "14"];
    for (status, code) in statuses.into_iter().zip(codes) {
        let response = rejected(status, "text/plain", "no");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], code, "{status}");
        assert_eq!(response.headers()["cache-control"], "no-store", "{status}");
        let details = response.headers().get("grpc-status-details-bin");
        assert!(details.is_none() && response.body().is_empty());
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
    let web = Some("application/grpc-web+proto");
    let text = Some("application/grpc-web-text+proto");
    for (content_type, protocol) in [
        ("application/grpc", Some(GRPC)),
        ("application/grpc+proto", Some(GRPC)),
        ("Application/gRPC;v=1", Some(GRPC)),
        ("application/grpc-web", web),
        ("application/grpc-web+proto", web),
        ("application/grpc-web; v=1", web),
        ("application/grpc-web-text", text),
        ("application/grpc-web-text+proto", text),
        ("", None),
        ("application/json", None),
        ("application/grpcx", None),
        ("application/grpc-webs", None),
        ("application/grpc-web-texts", None),
        ("text/plain", None),
    ] {
        let found = content_type_of_call(&request(content_type));
        assert_eq!(found, protocol, "{content_type}");
    }
    let without = Request::post("/").body(()).unwrap();
    assert_eq!(content_type_of_call(&without), None);
}
