//! What the observer of a layer sees while its Redis server lives, and once that is dead.

mod traffic;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use tollgate::{
    OnStoreError, Quota, RateLimitLayer, StoreErrorKind,
    algorithm::FixedWindow,
    key::from_fn,
    observe::{Event, Observe, Outcome},
};
use tollgate_redis_tests::Server;
use tower::{Layer, ServiceExt, service_fn};

use traffic::{DEADLINE, store};

/// Writes down what became of each request, whose it was, why, and what the store took.
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
    server.kill();
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
