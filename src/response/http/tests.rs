//! What callers receive over HTTP.

use std::{convert::Infallible, time::Duration};

use http::Method;

use super::*;
use crate::{
    algorithm::Judgement,
    response::tests::{both, refused_for},
};

const WAIT: Duration = Duration::from_millis(1_500);

fn request(method: Method) -> Request<()> {
    let request = Request::builder()
        .method(method)
        .uri("/secret?token=s3cret");
    request.header("authorization", "s3cret").body(()).unwrap()
}

fn refused(http: Http, method: Method, decision: Decision) -> Response<Bytes> {
    let Ok::<_, Infallible>(response) =
        http.answer(&request(method), Refusal::new(Reason::Limited(&decision)));
    response
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
    let names_both = body.ends_with(r#""violated-policies":["api","daily"]}"#);
    assert!(names_both, "{body}");
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
fn a_setting_stays_whatever_is_set_after_it() {
    let typed = || Http::new().problem_type("urn:own");
    let http = typed().fields(Fields::XRateLimit);
    let response = refused(http, Method::GET, refused_for(WAIT));
    assert!(response.headers().contains_key("x-ratelimit-limit"));
    assert!(response.body().starts_with(br#"{"type":"urn:own","#));
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
