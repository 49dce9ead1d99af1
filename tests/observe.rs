//! What the observer of a layer sees: each request once, whatever becomes of it.

use std::convert::Infallible;

use axum::{body::Body, http::StatusCode, response::Response};
use http::Request;
use tollgate::{
    OnStoreError, Quota, RateLimitLayer,
    StoreErrorKind::{InvalidInput, Misconfigured, Unavailable},
    algorithm::{FixedWindow, InFlight, LeakyBucket},
    key::{Global, Header, from_fn},
    observe::Outcome,
    response::AsError,
    store::LocalStore,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::seen::{Seen, panics, panics_at};
use crate::stores::over_every_store;
use crate::support::{Echo, Remote, broken, by_hand, daily, numbers};

/// The request is its own key and, as its length, its own cost.
async fn whoever_is_admitted_or_refused_is_seen_once<S>(store: S)
where
    S: tollgate::store::Store<(FixedWindow, FixedWindow), String, Deciding: Send>,
{
    let seen = Seen::default();
    let whole = from_fn(|request: &String| Ok::<_, Infallible>(Some(request.clone())));
    let hourly = FixedWindow::new(Quota::per_hour(4)).named("hourly");
    let service = RateLimitLayer::new((daily(6), hourly), store, whole)
        .cost(|request: &String| request.len() as u32)
        .respond_with(AsError)
        .observe(seen.clone())
        .layer(service_fn(async |request: String| {
            Ok::<_, Infallible>(request)
        }));
    let mut is_ok = Vec::new();
    for request in ["bob", "bob", "alice"] {
        is_ok.push(service.clone().oneshot(request.to_owned()).await.is_ok());
    }
    assert_eq!(is_ok, [true, false, false]);
    seen.is(&[
        r#"admitted "bob" cost 3, daily left 3, hourly left 1"#,
        r#"refused "bob" cost 3, daily left 3, hourly over 1, wait 3600s, answered"#,
        r#"refused "alice" cost 5, daily left 6, hourly over 4, answered"#,
    ]);
}

#[tokio::test]
async fn whoever_is_admitted_or_refused_by_any_store_is_seen_once() {
    over_every_store!(by_hand().1, |store| {
        whoever_is_admitted_or_refused_is_seen_once(store).await
    });
}

/// Answers a request whose `x-key` is this, if it has one.
async fn ask<S>(service: &S, key: Option<&str>) -> StatusCode
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + Clone,
{
    let mut request = Request::get("/").body(Body::empty()).unwrap();
    if let Some(key) = key {
        request.headers_mut().insert("x-key", key.parse().unwrap());
    }
    service.clone().oneshot(request).await.unwrap().status()
}

fn hello()
-> impl Service<Request<Body>, Response = Response, Error = Infallible, Future: Send> + Clone {
    service_fn(async |_: Request<Body>| Ok(Response::new(Body::from("hello"))))
}

#[tokio::test]
async fn who_would_be_refused_and_passes_as_the_limit_is_not_enforced_is_told_apart() {
    let seen = Seen::default();
    let by_number = from_fn(|number: &u32| match number {
        7 => Err((StatusCode::BAD_REQUEST, "seven")),
        _ => Ok(Some(())),
    });
    let service = RateLimitLayer::new(daily(1), by_hand().1, by_number)
        .respond_with(AsError)
        .observe(seen.clone())
        .enforce(|number: &u32, _: Option<&()>| *number == 5)
        .layer(Echo::default());
    for number in [1, 2, 5, 7] {
        let _ = service.clone().oneshot(number).await;
    }
    seen.is(&[
        "admitted () cost 1, daily left 0",
        "shadow_refused () cost 1, daily over 0, wait 86400s",
        "refused () cost 1, daily over 0, wait 86400s, answered",
        "rejected",
    ]);
    for kind in [Unavailable, Misconfigured, InvalidInput] {
        let broken = numbers(daily(1), broken(kind))
            .observe(seen.clone())
            .enforce(false)
            .layer(Echo::default());
        broken.oneshot(1).await.unwrap();
        seen.is(&[&format!("store_error () cost 1 {kind:?}")]);
    }
}

#[tokio::test]
async fn who_is_exempt_and_who_has_no_key_are_told_apart() {
    let seen = Seen::default();
    let exempt = |request: &Request<Body>| {
        let key = request.headers().get("x-key");
        key.is_some_and(|key| key == "operator")
    };
    for (header, missing, line) in [
        (Header::new("x-key").or_skip(), 200, "no_key"),
        (Header::new("x-key"), 400, "rejected, answered"),
    ] {
        let service = RateLimitLayer::new(daily(0), LocalStore::new(), header)
            .exempt(exempt)
            .observe(seen.clone())
            .layer(hello());
        assert_eq!(ask(&service, Some("operator")).await, 200);
        assert_eq!(ask(&service, None).await, missing);
        seen.is(&["exempt", line]);
    }
}

#[tokio::test]
async fn a_store_that_cannot_decide_is_seen_once_with_its_error() {
    let seen = Seen::default();
    let (refuse, admit) = (OnStoreError::Refuse, OnStoreError::Admit);
    for (kind, choice, status, line) in [
        (Unavailable, refuse, 503, "Unavailable, answered"),
        (Unavailable, admit, 200, "Unavailable"),
        (Misconfigured, admit, 500, "Misconfigured, answered"),
        (InvalidInput, admit, 500, "InvalidInput, answered"),
    ] {
        let service = RateLimitLayer::new(daily(1), broken(kind), Global)
            .on_store_error(choice)
            .observe(seen.clone())
            .layer(hello());
        assert_eq!(ask(&service, None).await, status);
        seen.is(&[&format!("store_error () cost 1 {line}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_its_turn_is_seen_when_it_is_admitted_and_never_again() {
    let seen = Seen::default();
    let queue = LeakyBucket::new(Quota::per_second(10)).capacity(3).queue();
    let mut service = numbers(queue.named("queue"), by_hand().1)
        .max_waiting(1)
        .observe(seen.clone())
        .layer(Echo::default());
    service.ready().await.unwrap().call(1).await.unwrap();
    let waits = service.ready().await.unwrap().call(2);
    seen.is(&[
        "admitted () cost 1, queue left 2",
        "admitted () cost 1, queue left 1, wait 100ms",
    ]);
    // As many wait as may.
    assert!(service.ready().await.unwrap().call(3).await.is_err());
    seen.is(&["refused () cost 1, queue over 0, wait 200ms, answered"]);
    waits.await.unwrap();
    // One that is dropped while it waits.
    drop(service.ready().await.unwrap().call(4));
    seen.is(&["admitted () cost 1, queue left 0, wait 200ms"]);
}

#[tokio::test]
async fn who_goes_away_while_a_remote_store_decides_is_not_seen() {
    let seen = Seen::default();
    let mut service = numbers(daily(1), Remote(by_hand().1))
        .observe(seen.clone())
        .layer(Echo::default());
    drop(service.ready().await.unwrap().call(1));
    seen.is(&[]);
}

#[tokio::test]
async fn an_observer_that_panics_unwinds_into_its_request_and_the_charge_stays() {
    let limit = numbers(daily(2), by_hand().1).observe(panics_at::<()>(Outcome::Admitted));
    let echo = Echo::default();
    let mut service = limit.layer(echo.clone());
    for left in [1, 0] {
        let ready = service.ready().await.unwrap();
        assert!(panics(|| ready.call(7)));
        assert_eq!(limit.limiter().peek(&()).now().remaining(), left);
    }
    // Others go on, and a refusal is no panic here.
    assert!(service.ready().await.unwrap().call(7).await.is_err());
    assert_eq!(echo.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_gives_the_turn_back() {
    let queue = LeakyBucket::new(Quota::per_second(10)).capacity(3).queue();
    let limit = numbers(queue, by_hand().1).observe(panics_at::<()>(Outcome::Admitted));
    let service = limit.layer(Echo::default());
    // The first one does not wait, and is charged.
    for _ in 0..3 {
        let mut service = service.clone();
        assert!(panics(|| service.call(7)));
        assert_eq!(limit.limiter().peek(&()).now().remaining(), 2);
    }
}

#[tokio::test]
async fn an_observer_that_panics_gives_the_place_in_flight_back() {
    let limit = RateLimitLayer::new(InFlight::new(2), by_hand().1, Global);
    let free = limit.clone();
    let limit = limit.observe(panics_at::<()>(Outcome::Admitted));
    let service = limit.layer(hello());
    for _ in 0..3 {
        let request = Request::get("/").body(Body::empty()).unwrap();
        let mut service = service.clone();
        assert!(panics(|| service.call(request)));
        assert_eq!(free.limiter().peek(&()).now().remaining(), 2);
    }
}
