//! `Debug` of a limiter, a service, a pending response, an event or a hold names its type, and no
//! caller.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use tollgate::{
    Quota, RateLimitLayer, RateLimiter,
    algorithm::TokenBucket,
    key::{Header, HeaderKey},
    observe::Event,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt};

const SECRET: &str = "sk-bobs-own";

#[tokio::test]
async fn what_is_printed_names_no_caller() {
    let quota = TokenBucket::new(Quota::per_day(7)).named("daily");
    let limit = RateLimitLayer::new(quota, LocalStore::new(), Header::new("x-api-key"));
    let inner = tower::service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    });
    let layer = format!("{limit:?}");
    let event = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&event);
    let limit = limit.observe(move |event: &Event<'_, HeaderKey>| {
        *seen.lock().unwrap() = format!("{event:?}");
    });
    let mut service = limit.layer(inner);
    let request = Request::builder().header("x-api-key", SECRET);
    let ready = service.ready().await.unwrap();
    let response = ready.call(request.body(String::new()).unwrap());
    let (service, under_way) = (format!("{service:?}"), format!("{response:?}"));
    assert!(response.await.unwrap().status().is_success());

    let store = LocalStore::new();
    let limiter = RateLimiter::new(TokenBucket::new(Quota::per_day(7)), store.clone());
    let check = limiter.check(SECRET);
    let call = format!("{check:?}");
    check.await.unwrap();
    let bucket = TokenBucket::new(Quota::per_day(7)).settled();
    let holding = RateLimiter::new(bucket, LocalStore::new());
    let hold = holding.hold(SECRET, 4).await.unwrap().unwrap();
    let event = event.lock().unwrap().clone();
    for (printed, begins, says) in [
        (layer, "RateLimitLayer {", "daily"),
        (service, "RateLimit {", "inner"),
        (under_way, "ResponseFuture", ""),
        (event, "Event {", "outcome: Admitted, passes: true, cost: 1"),
        (call, "Call {", "cost: Some(1)"),
        (format!("{limiter:?}"), "RateLimiter", ""),
        (format!("{store:?}"), "LocalStore {", "keys: 1"),
        (format!("{hold:?}"), "Hold {", "held: 4"),
        (format!("{:?}", hold.settle(1)), "Settlement", ""),
    ] {
        assert!(printed.starts_with(begins), "{printed}");
        assert!(printed.contains(says), "{printed}");
        assert!(!printed.contains(SECRET), "{printed}");
    }
}
