//! What a tonic client sees of a call that was refused.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tollgate::{
    OnStoreError, Quota, RateLimitLayer, StoreErrorKind,
    algorithm::{FixedWindow, TokenBucket},
    key::{Global, Rejection, from_fn},
    response::Grpc,
};
use tollgate_wire::{Broken, fresh_store};
use tonic::{Code, Request, Status, transport};
use tonic_types::StatusExt;

use crate::server::{ask, client, health, limit, start};

#[tokio::test]
async fn a_refused_call_is_resource_exhausted_with_the_wait_and_the_policy_in_google_s_messages() {
    let algorithm = TokenBucket::new(Quota::per_hour(2)).named("calls");
    let limit = RateLimitLayer::new(algorithm, fresh_store().1, Global);
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let mut client = client(server.address).await;
    for left in [1, 0] {
        let answer = client.check(ask()).await.unwrap();
        let told = format!("\"calls\";r={left};t=1800");
        assert_eq!(answer.metadata().get("ratelimit").unwrap(), &told);
    }
    let status = client.check(ask()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "rate limit exceeded");

    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(1_800)));
    let failure = status.get_details_quota_failure().unwrap();
    let [violation] = &failure.violations[..] else {
        panic!("{failure:?}");
    };
    assert_eq!(
        (&*violation.subject, &*violation.quota_id),
        ("calls", "calls")
    );
    assert_eq!(violation.description, "the limit is used up");
    assert_eq!(violation.quota_value, 2);
    for (name, value) in [
        ("grpc-retry-pushback-ms", "1800000"),
        ("retry-after", "1800"),
        ("ratelimit", "\"calls\";r=0;t=1800"),
        ("ratelimit-policy", "\"calls\";q=2;w=3600"),
    ] {
        assert_eq!(status.metadata().get(name).unwrap(), value, "{name}");
    }
}

#[tokio::test]
async fn a_call_that_can_never_fit_has_no_wait_and_is_told_not_to_try_again() {
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit(5).cost(6_u32)))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let status = client(server.address).await.check(ask()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_details_retry_info().is_none());
    let failure = status.get_details_quota_failure().unwrap();
    assert_eq!(
        failure.violations[0].description,
        "the cost is more than the limit"
    );
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert_eq!(pushback, "-1");
    assert!(!status.metadata().contains_key("retry-after"));
}

#[tokio::test]
async fn each_policy_that_refuses_is_a_violation_and_the_longest_wait_is_told() {
    let window = |quota, name| FixedWindow::new(quota).from_first_request().named(name);
    let algorithms = (
        window(Quota::per_minute(1), "minute"),
        window(Quota::per_day(9), "roomy"),
        window(Quota::per_day(1), "day"),
    );
    let limit = RateLimitLayer::new(algorithms, fresh_store().1, Global);
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit.respond_with(Grpc::new())))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let mut client = client(server.address).await;
    client.check(ask()).await.unwrap();
    let status = client.check(ask()).await.unwrap_err();
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(86_400)));
    let failure = status.get_details_quota_failure().unwrap();
    let names = failure
        .violations
        .iter()
        .map(|violation| &*violation.quota_id);
    assert_eq!(names.collect::<Vec<_>>(), ["minute", "day"]);
}

async fn with_broken_store(kind: StoreErrorKind, choice: OnStoreError) -> Result<(), Status> {
    let limit = FixedWindow::new(Quota::per_day(1));
    let limit = RateLimitLayer::new(limit, Broken(kind), Global).on_store_error(choice);
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let mut client = client(server.address).await;
    client.check(ask()).await.map(|_| ())
}

#[tokio::test]
async fn a_store_that_is_down_is_unavailable_or_open_as_the_user_chose() {
    let closed = with_broken_store(StoreErrorKind::Unavailable, OnStoreError::Refuse).await;
    let status = closed.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.details().is_empty());
    assert!(!status.metadata().contains_key("ratelimit"));
    assert!(!format!("{status:?}").contains("s3cret"));

    let open = with_broken_store(StoreErrorKind::Unavailable, OnStoreError::Admit).await;
    assert!(open.is_ok());
    let misconfigured = with_broken_store(StoreErrorKind::Misconfigured, OnStoreError::Admit).await;
    assert_eq!(misconfigured.unwrap_err().code(), Code::Unavailable);
}

/// tonic's client panics on details that are no base64, so nobody but us may write them.
#[tokio::test]
async fn details_that_a_caller_sends_or_a_rejection_has_are_not_passed_on() {
    struct Poisoned;

    impl Rejection for Poisoned {
        fn into_response(self) -> Response<Bytes> {
            let response = Response::builder()
                .status(401)
                .header("grpc-status-details-bin", "!!!")
                .header("grpc-status", "0");
            response.body(Bytes::new()).unwrap()
        }
    }

    let poisoned = from_fn(|request: &http::Request<tonic::body::Body>| {
        match request.headers().contains_key("x-key") {
            true => Ok(Some(())),
            false => Err(Poisoned),
        }
    });
    let algorithm = FixedWindow::new(Quota::per_day(1)).named("calls");
    let limit = RateLimitLayer::new(algorithm, fresh_store().1, poisoned);
    let server = start(|incoming| {
        (transport::Server::builder().layer(limit))
            .add_service(health())
            .serve_with_incoming(incoming)
    })
    .await;
    let mut client = client(server.address).await;
    let status = client.check(ask()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.details().is_empty());

    let call = || {
        let mut call = Request::new(ask());
        let metadata = call.metadata_mut();
        metadata.insert("x-key", "k".parse().unwrap());
        let details = tonic::metadata::MetadataValue::from_bytes(b"theirs");
        metadata.insert_bin("grpc-status-details-bin", details);
        call
    };
    client.check(call()).await.unwrap();
    let status = client.check(call()).await.unwrap_err();
    let failure = status.get_details_quota_failure().unwrap();
    assert_eq!(failure.violations[0].subject, "calls");
    assert!(!format!("{status:?}").contains("theirs"));
}
