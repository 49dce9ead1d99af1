//! What a refused client is told over HTTP, and what comes of it.

use std::{convert::Infallible, time::Duration};

use axum::{Router, routing::get};
use http::{HeaderMap, Request, Response, StatusCode, header::RETRY_AFTER};
use tollgate::response::Fields;
use tollgate_peers::{layers, limit::Limit, peers::axum_gcra};
use tower::{Service, ServiceExt};

use crate::{
    routers::request,
    verdict::{By, history_of, row},
};

/// A second is what most limits are written in, and the other one is no whole number of seconds.
const LIMITS: [Limit; 2] = [
    each(Duration::from_secs(1)),
    each(Duration::from_millis(1_500)),
];

const fn each(interval: Duration) -> Limit {
    Limit { interval, burst: 2 }
}

/// How often a client of each limit is refused.
const ROUNDS: u64 = 3;

pub(crate) fn all() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build();
    let all = runtime.expect("a runtime").block_on(play_all());

    let text = "A burst of 2 through a layer with one back each second, and the same with one each 1.5 s. A client asks \
        until it is refused with 429, waits for as long as `Retry-After` says, and asks again, three times. How many \
        of the answers of 429 had a `Retry-After` of a second or more.";
    history_of("A wait in each refusal", text, "seen");
    for (name, seen) in &all {
        let by = match *name {
            "axum_gcra" => By::Nothing("no such field, the text says how long"),
            _ => By::Promise,
        };
        row(name, seen.refused..=seen.refused, seen.told, by);
    }
    let text = "How many of those who waited for as long as `Retry-After` says, be it 0, were admitted then.";
    history_of("Asked again after `Retry-After`", text, "admitted");
    for (name, seen) in all.iter().filter(|(_, seen)| seen.waited > 0) {
        let by = match *name {
            "throttle-kit" => By::Nothing("it says 1 whatever the limit is"),
            "axum-governor" => By::Nothing("it leaves the rest of a second out"),
            _ => By::Promise,
        };
        row(name, seen.waited..=seen.waited, seen.admitted, by);
    }
}

#[derive(Default)]
struct Seen {
    refused: u64,
    told: u64,
    waited: u64,
    admitted: u64,
}

async fn play_all() -> Vec<(&'static str, Seen)> {
    let route = || Router::new().route("/", get(|| async {}));
    let (tollgate, tower_governor, with_headers, axum_governor, axum_gcra, throttle_kit, skp) = tokio::join!(
        both(|limit| route().layer(layers::tollgate(limit, Fields::default()))),
        both(|limit| route().layer(layers::tower_governor(limit))),
        both(|limit| route().layer(layers::tower_governor_with_headers(limit))),
        both(|limit| route().layer(layers::axum_governor(limit))),
        both_of_axum_gcra(),
        both(|limit| route().layer(layers::throttle_kit(limit))),
        both(|limit| route().layer(layers::skp_ratelimit(limit))),
    );
    vec![
        ("tollgate", tollgate),
        ("tower_governor", tower_governor),
        ("tower_governor `use_headers`", with_headers),
        ("axum-governor", axum_governor),
        ("axum_gcra", axum_gcra),
        ("throttle-kit", throttle_kit),
        ("skp-ratelimit", skp),
    ]
}

async fn both(router: impl Fn(Limit) -> Router) -> Seen {
    let mut seen = Seen::default();
    for limit in LIMITS {
        play(router(limit), || request("/", 1), &mut seen).await;
    }
    seen
}

/// It is for axum 0.7, whose requests are others.
async fn both_of_axum_gcra() -> Seen {
    let mut seen = Seen::default();
    for limit in LIMITS {
        let answer = |_: Request<axum07::body::Body>| async {
            Ok::<_, Infallible>(Response::new(axum07::body::Body::empty()))
        };
        let service = axum_gcra::layered(limit, tower::service_fn(answer));
        let ask = || {
            let (parts, _) = request("/", 1).into_parts();
            Request::from_parts(parts, axum07::body::Body::empty())
        };
        play(service, ask, &mut seen).await;
    }
    seen
}

async fn play<S, B, C>(mut service: S, ask: impl Fn() -> Request<B>, seen: &mut Seen)
where
    S: Service<Request<B>, Response = Response<C>, Error = Infallible>,
{
    for _ in 0..ROUNDS {
        let fields = loop {
            let (status, fields) = answer(&mut service, ask()).await;
            if status == StatusCode::TOO_MANY_REQUESTS {
                break fields;
            }
            assert_eq!(status, StatusCode::OK);
        };
        seen.refused += 1;
        let Some(seconds) = fields.get(RETRY_AFTER) else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let seconds = seconds.to_str().expect("a number").parse();
        let seconds: u64 = seconds.expect("a number");
        seen.told += u64::from(seconds > 0);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (status, _) = answer(&mut service, ask()).await;
        seen.waited += 1;
        seen.admitted += u64::from(status == StatusCode::OK);
    }
}

async fn answer<S, B, C>(service: &mut S, request: Request<B>) -> (StatusCode, HeaderMap)
where
    S: Service<Request<B>, Response = Response<C>, Error = Infallible>,
{
    let Ok(service) = service.ready().await;
    let Ok(response) = service.call(request).await;
    let (parts, _) = response.into_parts();
    (parts.status, parts.headers)
}
