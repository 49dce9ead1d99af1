//! What the observer of a layer or a limiter sees while its Redis server runs, and once the server
//! is dead or hangs.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::{
    OnStoreError, Quota, RateLimitLayer, RateLimiter, StoreErrorKind,
    algorithm::{FixedWindow, Gcra},
    key::from_fn,
    observe::{Event, Metrics, Observe, Outcome},
};
use tollgate_redis_tests::Server;
use tower::{Layer, ServiceExt, service_fn};

use crate::traffic::{DEADLINE, store};

/// Writes down how each request or call ended, whose it was, why, and how long the store took.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Line>>>);

type Line = (Outcome, Option<u32>, Option<StoreErrorKind>, Duration);

impl Observe<u32> for Seen {
    fn observe(&self, event: &Event<'_, u32>) {
        let kind = event.error().map(|error| error.kind());
        let took = event.store_time().unwrap_or_default();
        let line = (event.outcome(), event.key().copied(), kind, took);
        self.0.lock().unwrap().push(line);
    }

    fn times_store(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn each_request_is_seen_once_while_the_server_lives_and_when_it_is_killed() {
    each_request_is_seen_once(Server::kill).await;
}

#[tokio::test]
async fn each_request_is_seen_once_while_the_server_lives_and_when_it_hangs() {
    each_request_is_seen_once(Server::stop_process).await;
}

async fn each_request_is_seen_once(fault: impl Fn(&Server)) {
    let server = Server::start().await;
    let seen = Seen::default();
    let daily = FixedWindow::new(Quota::per_day(1));
    let key = from_fn(|request: &Request<u32>| Ok::<_, Infallible>(Some(*request.body())));
    let limit = RateLimitLayer::new(daily, store(server.client().await), key);
    let inner =
        service_fn(async |_: Request<u32>| Ok::<_, Infallible>(Response::new(Bytes::new())));
    let strict = limit.clone().observe(seen.clone()).layer(inner);
    let lenient = limit.on_store_error(OnStoreError::Admit);
    let lenient = lenient.observe(seen.clone()).layer(inner);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let response = strict.clone().oneshot(Request::new(7)).await.unwrap();
        answers.push(response.status().as_u16());
    }
    fault(&server);
    for service in [
        strict.clone().oneshot(Request::new(8)).await,
        lenient.oneshot(Request::new(8)).await,
    ] {
        answers.push(service.unwrap().status().as_u16());
    }
    assert_eq!(answers, [200, 429, 503, 200]);
    let seen = seen.0.lock().unwrap();
    let told: Vec<_> = seen.iter().map(|line| (line.0, line.1, line.2)).collect();
    let (down, seven, eight) = (Some(StoreErrorKind::Unavailable), Some(7), Some(8));
    assert_eq!(
        told,
        [
            (Outcome::Admitted, seven, None),
            (Outcome::Refused, seven, None),
            (Outcome::StoreError, eight, down),
            (Outcome::StoreError, eight, down),
        ]
    );
    let took = |line: &Line| line.3 > Duration::ZERO && line.3 < 20 * DEADLINE;
    assert!(seen.iter().all(took), "{seen:?}");
}

#[tokio::test]
async fn each_call_is_seen_once_while_the_server_lives_and_when_it_is_killed() {
    each_call_is_seen_once(Server::kill).await;
}

#[tokio::test]
async fn each_call_is_seen_once_while_the_server_lives_and_when_it_hangs() {
    each_call_is_seen_once(Server::stop_process).await;
}

async fn each_call_is_seen_once(fault: impl Fn(&Server)) {
    let server = Server::start().await;
    let seen = Seen::default();
    let one_at_a_time = Gcra::new(Quota::per_second(2)).burst(1);
    let limiter = RateLimiter::new(one_at_a_time, store(server.client().await));
    let limiter = limiter.observe(seen.clone());
    assert!(limiter.check(&7).await.unwrap().is_admitted());
    // It is refused while it waits, and that is not observed.
    limiter.until_ready(&7, 1).await.unwrap();
    assert!(limiter.hold(&8, 1).await.unwrap().is_ok());
    assert!(limiter.hold(&8, 1).await.unwrap().is_err());
    limiter.debit(&9, 5).await.unwrap();
    limiter.peek(&9).await.unwrap();
    limiter.refund(&9, 5).await.unwrap();
    limiter.reset(&9).await.unwrap();
    fault(&server);
    limiter.check(&7).await.unwrap_err();
    limiter.debit(&7, 1).await.unwrap_err();
    limiter.until_ready(&7, 1).await.unwrap_err();
    limiter.peek(&7).await.unwrap_err();
    let seen = seen.0.lock().unwrap();
    let told: Vec<_> = seen.iter().map(|line| (line.0, line.1, line.2)).collect();
    let down = Some(StoreErrorKind::Unavailable);
    assert_eq!(
        told,
        [
            (Outcome::Admitted, Some(7), None),
            (Outcome::Admitted, Some(7), None),
            (Outcome::Admitted, Some(8), None),
            (Outcome::Refused, Some(8), None),
            (Outcome::Debited, Some(9), None),
            (Outcome::StoreError, Some(7), down),
            (Outcome::StoreError, Some(7), down),
            (Outcome::StoreError, Some(7), down),
        ]
    );
    let took = |line: &Line| line.3 > Duration::ZERO && line.3 < 20 * DEADLINE;
    assert!(seen.iter().all(took), "{seen:?}");
}

#[tokio::test]
async fn what_a_store_has_counted_is_told_to_prometheus() {
    let server = Server::start().await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let store = store(server.client().await);
    let limiter = RateLimiter::new(FixedWindow::new(Quota::per_day(1)), store.clone());
    for is_admitted in [true, false, false] {
        let decision = limiter.check(&7).await.unwrap();
        assert_eq!(decision.is_admitted(), is_admitted);
    }
    server.kill();
    limiter.check(&7).await.unwrap_err();
    Metrics::new("api").record_usage(&store.usage());
    let told = handle.render();
    for sample in [
        r#"tollgate_redis_decisions{limit="api",outcome="admitted"} 1"#,
        r#"tollgate_redis_decisions{limit="api",outcome="refused"} 2"#,
        r#"tollgate_redis_decisions{limit="api",outcome="unavailable"} 1"#,
        r#"tollgate_redis_decisions{limit="api",outcome="misconfigured"} 0"#,
        r#"tollgate_redis_in_flight{limit="api"} 0"#,
        r#"tollgate_redis_last_answer_age{limit="api"} 0."#,
    ] {
        assert!(told.contains(sample), "{sample} in {told}");
    }
}
